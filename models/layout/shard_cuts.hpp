#pragma once
// Where the flat weights are cut into the ranges of parameter server shards.
// Plain arithmetic; any thread.

#include <cstddef>
#include <cstdint>
#include <vector>

namespace troupe::models {

/// Elements `first` to `first + count - 1` of a flat buffer.
struct element_range {
  uint64_t first = 0;
  uint64_t count = 0;

  uint64_t end() const { return first + count; }

  bool operator==(const element_range&) const = default;
};

/// Bytes that a cut is a multiple of: a page, so that the ranges of several
/// shards can be mapped side by side, and a tensor across a cut is still a
/// view.
inline constexpr uint64_t cut_alignment = 4096;

/// How many shards a flat buffer of `count` elements can have: each has at
/// least one page, the last of which may be short.
uint64_t most_shards(uint64_t count, size_t element_bytes);

/// One range for each shard, in order, without gaps; their pages differ by one
/// at most.
/// @pre 1 <= shards <= most_shards(count, element_bytes), or shards is 1
std::vector<element_range> cut(uint64_t count, size_t element_bytes,
                               uint32_t shards);

} // namespace troupe::models
