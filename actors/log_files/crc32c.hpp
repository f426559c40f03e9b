#pragma once
// CRC-32C (Castagnoli), the checksum of TFRecord files. Pure functions;
// thread-safe.

#include <cstddef>
#include <cstdint>
#include <span>

namespace troupe::recording {

uint32_t crc32c(std::span<const std::byte> bytes) noexcept;

/// The form that is stored in TFRecord files; masking keeps a checksum useful
/// when the data itself contains checksums.
constexpr uint32_t mask_crc(uint32_t crc) noexcept {
  return ((crc >> 15) | (crc << 17)) + 0xa282ead8u;
}

} // namespace troupe::recording
