#pragma once
// Hashes the id of a push, for hash tables that are keyed by pushes. A pure
// function object; thread-safe.

#include "messages/ids.hpp"

namespace troupe::cores {

/// Spreads gradients over a hash table. A worker has few at a time, so rank and
/// number distinguish nearly all of them.
struct push_hash {
  size_t operator()(const push_id& x) const noexcept {
    constexpr uint64_t golden = 0x9E3779B97F4A7C15; // 2^64 / the golden ratio
    return (uint64_t{x.worker.value} << 32 ^ uint64_t{x.life.value} << 20 ^
            x.seq.value) *
             golden >>
           16;
  }
};

} // namespace troupe::cores
