#pragma once
// CRC-32C (Castagnoli), as TFRecord files use it. Pure.

#include <cstddef>
#include <cstdint>
#include <span>

namespace troupe::recording {

uint32_t crc32c(std::span<const std::byte> bytes) noexcept;

/// The form stored in TFRecord files, so that a checksum of data that holds
/// checksums stays a good one.
constexpr uint32_t mask_crc(uint32_t crc) noexcept {
  return ((crc >> 15) | (crc << 17)) + 0xa282ead8u;
}

} // namespace troupe::recording
