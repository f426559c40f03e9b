#pragma once
// How a gradient becomes smaller for its way to the parameter server, and is
// made whole again there. Bytes: docs/design/0012-compression.md.
//
// What compression loses is not lost for good with `int8` and `topk`: it is the
// error feedback that is added to the next gradient (error feedback; Seide et
// al., "1-bit stochastic gradient descent", Interspeech 2014; for top-k, Stich
// et al., "Sparsified SGD with memory", NeurIPS 2018, algorithm 1).
//
// Thread-safe: a codec is immutable. The same bits for the same numbers.

#include "config/values/compression.hpp"
#include "messages/payload.hpp"
#include "messages/payload_memory.hpp"

#include <cstdint>
#include <memory>
#include <span>

namespace troupe::transport {

class gradient_codec {
public:
  /// @param numbers Float32s that are compressed; below 2^32 for topk.
  /// @param rest Further ones behind them, running statistics, which travel as
  /// they are.
  /// @pre how.kind is not none
  gradient_codec(const config::compression& how, uint64_t numbers,
                 uint64_t rest);

  const config::compression& how() const { return how_; }

  /// Numbers that have error feedback.
  uint64_t numbers() const { return numbers_; }

  /// A gradient as it is computed.
  payload_shape plain() const {
    return {element_type::float32, numbers_ + rest_};
  }

  /// The same compressed: always as many bytes.
  payload_shape compressed() const {
    return {element_type::byte, compressed_bytes_};
  }

  /// Packs a gradient, together with the error feedback if there is one; what
  /// that loses goes to `lost`. False if a number is not finite: then neither
  /// is what was compressed, so that the server refuses it, and `lost` is
  /// arbitrary.
  /// @pre Sizes fit; `error_feedback` and `lost` have numbers() or are empty,
  /// and do not overlap.
  bool pack(std::span<const float> gradient,
            std::span<const float> error_feedback, std::span<float> lost,
            std::span<std::byte> to) const;

  /// Throws `path_error` for what `pack` does not make.
  /// @pre Sizes fit.
  void unpack(std::span<const std::byte> from, std::span<float> to) const;

private:
  config::compression how_;
  uint64_t numbers_;
  uint64_t rest_;
  uint64_t kept_; ///< topk: numbers that are sent.
  uint64_t compressed_bytes_;
};

using codec_ptr = std::shared_ptr<const gradient_codec>;

/// Null if nothing is to be compressed.
codec_ptr make_codec(const config::compression& how, uint64_t numbers,
                     uint64_t rest);

/// Makes gradients whole again at the end of their way. Belongs to one actor.
class unpacker {
public:
  /// @param codec Null: gradients come as they are.
  explicit unpacker(codec_ptr codec);

  /// What is no compressed gradient of the model's size becomes a payload of
  /// which only the shape is there, and that of no gradient. Throws
  /// `path_error` for what was not compressed by the codec.
  payload unpack(const payload& what) const;

private:
  codec_ptr codec_;
  std::unique_ptr<payload_pool> memory_;
};

} // namespace troupe::transport
