#pragma once
// Where a range of a version's numbers lies in the files of its checkpoint.
//
// Pure; reentrant.

#include "config/text/failure.hpp"
#include "messages/types.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace troupe {

/// Calls `put(at, bytes)` for each part of a file that some of these bytes
/// belong to. Throws `run_error` when there is no place for all of them.
/// @param first Bytes of the parameters before them.
/// @param width Bytes of a number.
template <class Put>
void put_range(std::span<const file_part> parts, uint64_t width, uint64_t first,
               std::span<const std::byte> bytes, const Put& put) {
  auto end = first + bytes.size();
  uint64_t placed = 0;
  for (const auto& part : parts) {
    auto begins = part.first * width;
    auto from = std::max(first, begins);
    auto to = std::min(end, begins + part.count * width);
    if (from >= to)
      continue;
    put(part.at + from - begins, bytes.subspan(from - first, to - from));
    placed += to - from;
  }
  if (placed != bytes.size())
    throw run_error("the files of a checkpoint have no place for a shard");
}

} // namespace troupe
