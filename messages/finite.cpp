#include "messages/finite.hpp"

#include <algorithm>
#include <cstring>

namespace troupe {

namespace {

/// Looks at the exponents as integers: a loop without branches, and one that
/// no compiler option for fast arithmetic can take away.
template <class Bits>
bool all_finite(std::span<const std::byte> bytes, Bits exponent) {
  constexpr size_t block = 4096 / sizeof(Bits);
  auto count = bytes.size() / sizeof(Bits);
  for (size_t first = 0; first < count; first += block) {
    auto end = std::min(count, first + block);
    Bits found = 0;
    for (auto i = first; i < end; ++i) {
      Bits bits;
      std::memcpy(&bits, bytes.data() + i * sizeof bits, sizeof bits);
      found |= static_cast<Bits>((bits & exponent) == exponent);
    }
    if (found != 0)
      return false;
  }
  return true;
}

} // namespace

bool all_finite(const payload& numbers) {
  switch (numbers.shape().type) {
  case element_type::float32:
    return all_finite<uint32_t>(numbers.bytes(), 0x7f800000);
  case element_type::float64:
    return all_finite<uint64_t>(numbers.bytes(), 0x7ff0000000000000);
  default:
    return true;
  }
}

} // namespace troupe
