#pragma once
// The number of a run's last life of the parameter server, in the file `lives`
// of its run directory. Workers tell lives apart by it, so no number may be
// used twice, even if a server died before it wrote a checkpoint. Called by
// main's thread before the server starts.

#include <cstdint>
#include <filesystem>

namespace troupe::models {

/// The last life; 0 when there was none. Throws `run_error` when the file holds
/// no number.
uint32_t last_life(const std::filesystem::path& run);

/// Writes the number; durable when this returns. Throws `run_error`.
void note_life(const std::filesystem::path& run, uint32_t life);

} // namespace troupe::models
