#pragma once
// Appends to files so that they end with a complete record, whatever fails.
//
// Free functions; not thread-safe for the same file.

#include <cstdint>
#include <filesystem>
#include <string_view>

namespace troupe::recording {

/// Throws a `run_error` that says "cannot <verb> <path>: <reason of errno>".
[[noreturn]] void fail(const char* verb, const std::filesystem::path& path);

/// Appends all of `text` to a file of `size` bytes that was opened for
/// appending. Throws `run_error` (disk full). The file then is as before, or,
/// if it cannot be truncated, ends with a part of `text`.
void append_whole(int handle, std::string_view text, uint64_t size,
                  const std::filesystem::path& path);

} // namespace troupe::recording
