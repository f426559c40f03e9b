#pragma once
// Makes and compares payloads.

#include "messages/payload.hpp"

#include <algorithm>
#include <cstring>
#include <random>
#include <vector>

namespace troupe::test {

/// `count` float32 numbers, all equal.
inline payload constant_payload(uint64_t count, float x) {
  payload_buffer memory{{element_type::float32, count}};
  std::vector<float> numbers(count, x);
  std::memcpy(memory.bytes().data(), numbers.data(), count * sizeof x);
  return std::move(memory).seal();
}

/// `count` float32 of random bits.
inline payload random_payload(uint64_t count, uint64_t seed) {
  payload_buffer memory{{element_type::float32, count}};
  std::mt19937_64 random{seed};
  for (auto& byte : memory.bytes())
    byte = static_cast<std::byte>(random());
  return std::move(memory).seal();
}

inline float number_of(const payload& from, size_t index) {
  float out = 0;
  std::memcpy(&out, from.host_bytes().data() + index * sizeof out, sizeof out);
  return out;
}

inline bool same_bytes(const payload& x, const payload& y) {
  return x.shape() == y.shape() &&
         std::ranges::equal(x.host_bytes(), y.host_bytes());
}

} // namespace troupe::test
