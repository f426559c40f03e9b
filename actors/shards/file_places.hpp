#pragma once
// Where a range of a version's numbers lies in the files of its checkpoint.
//
// Reentrant.

#include "config/text/failure.hpp"
#include "messages/types.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace troupe {

/// Puts bytes into the parts of a file that they belong to. Throws `run_error`
/// when there is no place for all of them.
/// @param file The draft of a file, or a piece of one.
/// @param first Bytes of the parameters before them.
/// @param width Bytes of a number.
template <class File>
void put_range(File& file, std::span<const file_part> parts, uint64_t width,
               uint64_t first, std::span<const std::byte> bytes) {
  auto end = first + bytes.size();
  uint64_t placed = 0;
  for (const auto& part : parts) {
    auto begins = part.first * width;
    auto from = std::max(first, begins);
    auto to = std::min(end, begins + part.count * width);
    if (from >= to)
      continue;
    file.put(part.at + from - begins, bytes.subspan(from - first, to - from));
    placed += to - from;
  }
  if (placed != bytes.size())
    throw run_error("the files of a checkpoint have no place for a shard");
}

} // namespace troupe
