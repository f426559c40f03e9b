#pragma once
// The members of a zip archive that lies in memory. Only members that are
// stored as they are can be read: their bytes are views into the archive, so
// that an archive cannot hold more than its size, and nothing is copied.
// Checksums of members are not compared, since PyTorch may leave them out.
//
// Source: PKWARE, ".ZIP File Format Specification", version 6.3.10, sections
// 4.3 and 4.5.3 (zip64). Pure; any thread. Errors are `run_error`s that begin
// with `where`.

#include <cstddef>
#include <functional>
#include <map>
#include <span>
#include <string>

namespace troupe::models {

/// By name, as it is in the archive: "archive/data.pkl".
using zip_members =
  std::map<std::string, std::span<const std::byte>, std::less<>>;

/// The bytes of the members are part of `archive`.
zip_members read_zip(std::span<const std::byte> archive,
                     const std::string& where);

} // namespace troupe::models
