#pragma once
// Divides the flat weights into the ranges of parameter server shards. Pure
// functions; any thread.

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

/// Ranges begin at multiples of this many bytes: a page, so that the ranges of
/// several shards can be mapped side by side and a tensor across two ranges is
/// still one view.
inline constexpr uint64_t cut_alignment = 4096;

/// The most shards for a flat buffer of `count` elements: each has at least one
/// page, of which the last may be short.
uint64_t most_shards(uint64_t count, size_t element_bytes);

/// One range for each shard, in order, without gaps; their sizes differ by at
/// most one page.
/// @pre 1 <= shards <= most_shards(count, element_bytes), or shards is 1
std::vector<element_range> cut(uint64_t count, size_t element_bytes,
                               uint32_t shards);

} // namespace troupe::models
