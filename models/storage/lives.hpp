#pragma once
// The number of a run's last life of the parameter server, in the file `lives`
// of its run directory. Workers tell lives apart by it, so that none may come
// twice: not even when a server died before it had written a checkpoint.

#include <cstdint>
#include <filesystem>

namespace troupe::models {

/// 0 when no life was noted. Throws `run_error` when the file is no number.
uint32_t last_life(const std::filesystem::path& run);

/// Durable when this returns. Throws `run_error`.
void note_life(const std::filesystem::path& run, uint32_t life);

} // namespace troupe::models
