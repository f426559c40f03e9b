#pragma once
// Compares the checkpoints of a run with those of its replays. Pure functions;
// any thread.

#include <filesystem>
#include <string>
#include <vector>

namespace troupe::test {

struct checkpoint_comparison {
  size_t compared = 0;
  std::vector<std::string> differences; ///< A line each.
};

/// Compares the tensors of each checkpoint that a life of a run's server has
/// written, rolled back ones included, with those of that life's replay, which
/// must have all of them.
/// @param tolerance Of a float32, relative to the largest of its file, and ten
/// times that for what an optimiser keeps; 0: all bits must be the same.
checkpoint_comparison compare_checkpoints(const std::filesystem::path& run,
                                          uint64_t life,
                                          const std::filesystem::path& replay,
                                          double tolerance = 0);

} // namespace troupe::test
