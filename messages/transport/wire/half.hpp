#pragma once
// Conversions between float32 and the 16-bit formats, rounding to the nearest,
// ties to even. Written without branches, so that compilers vectorise loops
// over them. NaN and infinity are kept; a finite number that is too large
// becomes the largest finite one. Pure functions.

#include <bit>
#include <cstdint>

namespace troupe::transport {

/// IEEE 754 binary16.
inline uint16_t to_half(float x) {
  constexpr uint32_t infinite = 0x7f800000;
  auto bits = std::bit_cast<uint32_t>(x);
  auto sign = (bits >> 16) & 0x8000;
  auto size = bits & 0x7fffffff;
  // From 2^-14 on: another bias of the exponent, and 13 bits rounded away.
  auto normal = (size - 0x37fff001 + ((size >> 13) & 1)) >> 13;
  // Below it the spacing is that of floats from 0.5 on.
  auto small = std::bit_cast<uint32_t>(std::bit_cast<float>(size) + 0.5F) -
               std::bit_cast<uint32_t>(0.5F);
  auto out = size < 0x38800000 ? small : normal;
  out = size >= 0x477ff000 ? 0x7bff : out;
  out = size == infinite ? 0x7c00 : out;
  out = size > infinite ? 0x7e00 : out;
  return static_cast<uint16_t>(sign | out);
}

inline float from_half(uint16_t half) {
  auto size = static_cast<uint32_t>(half & 0x7fff) << 13;
  auto sign = static_cast<uint32_t>(half & 0x8000) << 16;
  // 2^112 gives the exponent its bias, for numbers below 2^-14 as well.
  auto finite = std::bit_cast<uint32_t>(std::bit_cast<float>(size) * 0x1p112F);
  auto out = size >= 0x0f800000 ? size | 0x7f800000 : finite;
  return std::bit_cast<float>(sign | out);
}

/// bfloat16, the upper half of a float32.
inline uint16_t to_bf16(float x) {
  constexpr uint32_t infinite = 0x7f800000;
  auto bits = std::bit_cast<uint32_t>(x);
  auto sign = (bits >> 16) & 0x8000;
  auto size = bits & 0x7fffffff;
  auto out = (size + 0x7fff + ((size >> 16) & 1)) >> 16;
  out = out >= 0x7f80 ? 0x7f7f : out;
  out = size == infinite ? 0x7f80 : out;
  out = size > infinite ? 0x7fc0 : out;
  return static_cast<uint16_t>(sign | out);
}

inline float from_bf16(uint16_t half) {
  return std::bit_cast<float>(static_cast<uint32_t>(half) << 16);
}

} // namespace troupe::transport
