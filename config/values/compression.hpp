#pragma once
// `--compression topk(share=0.01)`: how gradients are compressed on their way
// to the parameter server. Here the declaration is only read;
// messages/transport/compression applies it. Plain values.

#include <cstdint>
#include <string>
#include <string_view>

namespace troupe::config {

enum class compression_kind : uint8_t {
  none,
  fp16, ///< IEEE 754 binary16: 10 bits of fraction, up to 65504.
  bf16, ///< The upper half of a float32: its range, 7 bits of fraction.
  int8, ///< 8 bits a number, and a scale for each 1024 of them.
  topk  ///< Only the numbers of largest magnitude, with their positions.
};

struct compression {
  compression_kind kind = compression_kind::none;
  double share = 0.01; ///< topk: fraction of the numbers that is sent.

  /// Whether what compression loses of a gradient is added to the next one
  /// (error feedback).
  bool has_error_feedback() const {
    return kind == compression_kind::int8 || kind == compression_kind::topk;
  }

  bool operator==(const compression&) const = default;
};

/// Reads `none`, `fp16`, `bf16`, `int8`, `topk` or `topk(share=0.01)`. Throws
/// `bad_value` that says what is wrong.
compression parse_compression(std::string_view text);

} // namespace troupe::config
