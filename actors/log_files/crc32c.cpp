#include "actors/log_files/crc32c.hpp"

#include <array>

namespace troupe::recording {

namespace {

constexpr std::array<uint32_t, 256> make_table() {
  constexpr uint32_t polynomial = 0x82f63b78u; // Castagnoli, bits reversed
  std::array<uint32_t, 256> result{};
  for (uint32_t i = 0; i < 256; ++i) {
    auto x = i;
    for (int bit = 0; bit < 8; ++bit)
      x = (x >> 1) ^ ((x & 1) != 0 ? polynomial : 0);
    result[i] = x;
  }
  return result;
}

constexpr auto table = make_table();

} // namespace

uint32_t crc32c(std::span<const std::byte> bytes) noexcept {
  uint32_t result = 0xffffffffu;
  for (auto x : bytes)
    result =
      (result >> 8) ^ table[(result ^ std::to_integer<uint32_t>(x)) & 0xffu];
  return ~result;
}

} // namespace troupe::recording
