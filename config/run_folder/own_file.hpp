#pragma once
// Files that a user names for output, and that may be there already: only what
// this program has written is replaced or removed.
//
// Thread-safe functions.

#include <filesystem>
#include <string>
#include <string_view>

namespace troupe::config {

/// The first bytes of a file; empty if it is not there or holds nothing.
/// @param most Bytes.
/// Throws `usage_error` when something else than a regular file is there, or
/// it cannot be read.
std::string beginning_of(const std::filesystem::path& path, size_t most = 4096);

/// Throws `usage_error`, and does nothing else, unless `path` may be written:
/// it is not there, it is empty, or it begins as a file of ours does.
/// @param cite The flag or key that names it, for the line: "--json".
/// @param beginning Of the files that we write there; empty: none is replaced.
void require_own_file(const std::string& cite,
                      const std::filesystem::path& path,
                      std::string_view beginning = {});

} // namespace troupe::config
