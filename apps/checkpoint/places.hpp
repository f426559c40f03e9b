#pragma once
// What the PATH of `trainer_node checkpoint` names. Reads only names. Not
// thread-safe with a writer of the same folder.

#include "config/values/metrics.hpp"
#include "models/storage/checkpoint.hpp"

#include <cstdint>
#include <filesystem>
#include <map>
#include <vector>

namespace troupe::app {

struct weights_place {
  std::filesystem::path run;  ///< The run directory; empty if it is unknown.
  std::filesystem::path file; ///< If PATH is a file of weights; else empty.
  std::vector<models::checkpoint_entry> checkpoints; ///< Oldest first.
};

/// `path` may be a checkpoint, a folder of checkpoints, a run directory or a
/// safetensors file. Throws `run_error` for any other path.
weights_place find_weights(const std::filesystem::path& path);

/// The scores in the run's metrics.jsonl, by step; of several scores of a step
/// the last one counts. Empty without such a file.
std::map<uint64_t, config::metrics> scores_of(const std::filesystem::path& run);

} // namespace troupe::app
