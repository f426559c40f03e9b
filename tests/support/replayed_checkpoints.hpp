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

/// Compares, bit by bit, the tensors of each checkpoint that a life of a run's
/// server has written, rolled back ones included, with those of that life's
/// replay, which must have all of them.
checkpoint_comparison compare_checkpoints(const std::filesystem::path& run,
                                          uint64_t life,
                                          const std::filesystem::path& replay);

} // namespace troupe::test
