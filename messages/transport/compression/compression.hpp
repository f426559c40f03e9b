#pragma once
// Compresses gradients on their way to the parameter server, and restores them
// there. The format of the bytes: docs/design/0012-compression.md.
//
// With `int8` and `topk`, what compression loses is kept and added to the next
// gradient (error feedback; Seide et al., "1-bit stochastic gradient descent",
// Interspeech 2014; for top-k, Stich et al., "Sparsified SGD with memory",
// NeurIPS 2018, algorithm 1).
//
// A codec is immutable, hence thread-safe. The same numbers always give the
// same bits.

#include "config/values/compression.hpp"
#include "messages/payload.hpp"
#include "messages/payload_memory.hpp"

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace troupe::transport {

class gradient_codec {
public:
  /// @param numbers Float32s to compress; below 2^32 for topk.
  /// @param rest Float32s behind them (running statistics), sent uncompressed.
  /// @param fragments Where gradients are fragments: the float32s of each. The
  /// last one ends with the rest.
  /// @pre how.kind is not none
  gradient_codec(const config::compression& how, uint64_t numbers,
                 uint64_t rest, std::span<const uint64_t> fragments = {});

  const config::compression& how() const { return how_; }

  /// How many numbers are compressed, and so have error feedback.
  uint64_t numbers() const { return numbers_; }

  /// The fragments of the gradients.
  size_t fragments() const {
    return fragments_.empty() ? 1 : fragments_.size();
  }

  /// The codec of a fragment; this one where there is only one.
  const gradient_codec& of(uint32_t fragment) const {
    return fragments_.empty() ? *this
                              : fragments_[fragment % fragments_.size()];
  }

  /// `numbers` of each fragment; one where there is only one.
  std::vector<uint64_t> numbers_of_fragments() const;

  /// The shape of an uncompressed gradient.
  payload_shape plain() const {
    return {element_type::float32, numbers_ + rest_};
  }

  /// The shape of a compressed one: the number of bytes is always the same.
  payload_shape compressed() const {
    return {element_type::byte, compressed_bytes_};
  }

  /// Compresses a gradient plus the error feedback, if there is any, and puts
  /// what that loses into `lost`. Returns false if a number is not finite: the
  /// output then holds such a number too, so that the server refuses it, and
  /// `lost` is arbitrary.
  /// @pre Sizes fit; `error_feedback` and `lost` have numbers() elements or are
  /// empty, and do not overlap.
  bool pack(std::span<const float> gradient,
            std::span<const float> error_feedback, std::span<float> lost,
            std::span<std::byte> to) const;

  /// Restores a gradient. Throws `path_error` for bytes that `pack` cannot have
  /// made.
  /// @pre Sizes fit.
  void unpack(std::span<const std::byte> from, std::span<float> to) const;

private:
  config::compression how_;
  uint64_t numbers_;
  uint64_t rest_;
  uint64_t kept_; ///< topk: numbers that are sent.
  uint64_t compressed_bytes_;
  std::vector<gradient_codec> fragments_; ///< Empty: there is only one.
};

using codec_ptr = std::shared_ptr<const gradient_codec>;

/// The codec of these settings; null if they ask for no compression.
codec_ptr make_codec(const config::compression& how, uint64_t numbers,
                     uint64_t rest, std::span<const uint64_t> fragments = {});

/// Restores gradients where they arrive. Belongs to one actor; not thread-safe.
class unpacker {
public:
  /// @param codec Null: gradients arrive uncompressed.
  explicit unpacker(codec_ptr codec);

  /// Restores one gradient. A payload that is not a compressed gradient of the
  /// model's size becomes one without numbers, whose shape fits no gradient, so
  /// that it is refused. Throws `path_error` for bytes that the codec cannot
  /// have made.
  /// @param fragment That it is of; an empty one is not compressed.
  payload unpack(const payload& tensor, uint32_t fragment = 0) const;

private:
  codec_ptr codec_;
  std::unique_ptr<payload_pool> memory_;
};

} // namespace troupe::transport
