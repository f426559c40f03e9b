#pragma once
// Lists the members of a tar file by walking its headers: ustar, pax and GNU's
// long names. Nothing is unpacked. Files are not trusted: no memory is
// allocated for members that are not there, and a name that leaves the root is
// refused. Stateless; any thread.

#include "data/left_out.hpp"

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace troupe::data {

/// A regular file in a tar file.
struct tar_member {
  std::string name;
  uint64_t header = 0; ///< Where its first header begins, long names included.
  uint64_t begin = 0;  ///< Where its bytes begin,
  uint64_t size = 0;   ///< and how many there are.
  uint64_t end = 0;    ///< Where the next header begins, or the file ends.
};

/// Reads bytes at a position; returns how many there were.
using bytes_at = std::function<size_t(uint64_t position, std::span<uint8_t>)>;

/// The members in their order.
/// @param size Bytes of the whole file.
/// @param name Stands for the file in errors.
/// @param without Counts the links, which hold nothing themselves; or null.
/// @throws run_error naming file, position and what is wrong there.
std::vector<tar_member> index_tar(const bytes_at& read, uint64_t size,
                                  const std::string& name,
                                  left_out* without = nullptr);

/// "a/b.seg.png" has the stem "a/b" and the kind "seg.png", in lower case; a
/// name without a dot is all stem.
struct stem_and_kind {
  std::string stem;
  std::string kind;
};

stem_and_kind split_name(const std::string& name);

} // namespace troupe::data
