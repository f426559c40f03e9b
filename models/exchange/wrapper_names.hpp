#pragma once
// What PyTorch's wrappers put into the names of a state dict: `module.` (data
// parallelism, averages of weights), `model.` (Lightning), and parts within
// such as `_orig_mod.` (torch.compile). Pure functions.

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::models {

/// Names of a state dict, read in one way.
struct names_read {
  /// In the order of the names that were given; empty for one that belongs to
  /// a wrapper itself (the `n_averaged` of an average).
  std::vector<std::string> names;
  /// What was taken off, for the user: "'module.' and '_orig_mod.'"; empty if
  /// the names are as they were.
  std::string without;
};

/// All ways to read these names, as they are first, then with more and more of
/// the wrappers taken off. No way makes two names equal.
/// @param aside Names that need not have what all others begin with.
std::vector<names_read>
ways_to_read(const std::vector<std::string>& names,
             const std::function<bool(const std::string&)>& aside = nullptr);

} // namespace troupe::models
