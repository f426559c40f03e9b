#pragma once
// Files that only grow, and end with something whole whatever happens.

#include <cstdint>
#include <filesystem>
#include <string_view>

namespace troupe::recording {

/// Throws `run_error`: "cannot <verb> <path>: <errno in words>".
[[noreturn]] void fail(const char* verb, const std::filesystem::path& path);

/// Writes all of `what` at the end of a file of `size` bytes that was opened
/// for appending. Throws `run_error` (disk full); then the file is as it was,
/// or ends with a part of `what` if not even that can be had.
void append_whole(int handle, std::string_view what, uint64_t size,
                  const std::filesystem::path& path);

} // namespace troupe::recording
