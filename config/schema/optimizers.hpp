#pragma once
// The optimisers that this program has, as far as settings are concerned. The
// registry of models tells them before main begins, and so do optimisers of the
// user's own; a program without that registry knows none.
//
// Adding is not thread-safe and must end before main begins; afterwards any
// thread may read.

#include <cstdint>
#include <functional>
#include <span>
#include <string>

namespace troupe::config {

struct group_numbers;
struct training_settings;

struct optimizer_facts {
  std::string name;
  /// How many buffers of the parameters' size it keeps besides the weights, for
  /// the memory that a plan shows.
  std::function<uint64_t(const training_settings&)> slots;
  double epsilon = 1e-8;     ///< If the user gives none.
  bool has_momentum = false; ///< Whether it has that of [training].
};

void add_optimizer(optimizer_facts facts);

/// The names, in the order in which they were added, which users see.
/// @throws usage_error if one that was added is taken, is no name, or lacks its
/// function.
std::span<const std::string> known_optimizers();

/// @returns null if there is none of this name.
/// @throws usage_error as known_optimizers does.
const optimizer_facts* find_optimizer(const std::string& name);

/// Why a group of parameters cannot have these numbers with these settings, as
/// in "has a momentum, which adam does not know"; empty if it can.
std::string misfit_of(const group_numbers& group,
                      const training_settings& settings);

} // namespace troupe::config
