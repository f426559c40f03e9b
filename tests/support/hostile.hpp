#pragma once
// Random histories of peers that know the protocol and break it: everything is
// right but for some numbers.
//
// TROUPE_HOSTILE_RUNS histories of each kind, from TROUPE_HOSTILE_FIRST on.

#include "messages/types.hpp"
#include "tests/support/wished.hpp"

#include <catch2/catch_message.hpp>

#include <algorithm>
#include <memory>
#include <random>
#include <string>

namespace troupe::test {

using dice = std::mt19937_64;

inline bool one_in(dice& random, uint64_t n) {
  return random() % n == 0;
}

template <class T, size_t N>
T any_of(dice& random, const T (&all)[N]) {
  return all[random() % N];
}

/// Numbers around which things go wrong.
inline uint64_t odd_number(dice& random, uint64_t around) {
  const uint64_t all[] = {0,
                          1,
                          around - 1,
                          around,
                          around + 1,
                          2 * around,
                          UINT64_MAX - 7,
                          UINT64_MAX,
                          uint64_t{1} << 32,
                          random()};
  return any_of(random, all);
}

inline chunk make_chunk(uint64_t transfer, uint64_t offset, uint64_t size) {
  chunk out;
  out.transfer = transfer_id{transfer};
  out.offset = offset;
  out.size = size;
  out.received = std::make_shared<std::byte[]>(size, std::byte{1});
  return out;
}

inline chunk any_chunk(dice& random, uint64_t transfer, uint64_t around) {
  auto size = std::min<uint64_t>(odd_number(random, around), 2 * around);
  return make_chunk(transfer, odd_number(random, around), size);
}

template <class F>
void repeat(uint64_t runs, F attack) {
  auto first = testing::wished("TROUPE_HOSTILE_FIRST", 1);
  auto end = first + testing::wished("TROUPE_HOSTILE_RUNS", runs);
  for (auto seed = first; seed < end; ++seed) {
    INFO("seed " << seed);
    attack(seed);
  }
}

} // namespace troupe::test
