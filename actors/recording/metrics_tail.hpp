#pragma once
// What the end of metrics.jsonl tells about a run that was cut off.

#include <cstdint>
#include <filesystem>
#include <optional>

namespace troupe::recording {

/// The step of the last `update` line in `path`, or nothing when there is none
/// or no such file. Torn lines do not count. Reads from the end, so that a long
/// log costs no more than a short one. Throws `run_error` when the file cannot
/// be read. Thread-safe.
std::optional<uint64_t> last_update_step(const std::filesystem::path& path);

} // namespace troupe::recording
