#pragma once
// Reads the end of metrics.jsonl of a run that was interrupted. A free
// function; thread-safe.

#include <cstdint>
#include <filesystem>
#include <optional>

namespace troupe::recording {

/// The step that the log in `path` has come to: that of its last `update` line,
/// or of a later `resumed` line, which already tells of the updates that were
/// lost. Nothing when there is no such line or no file. Incomplete lines do not
/// count. Reads from the end, so that the time does not depend on the length of
/// the log. Throws `run_error` when the file cannot be read. Thread-safe.
std::optional<uint64_t> last_step(const std::filesystem::path& path);

} // namespace troupe::recording
