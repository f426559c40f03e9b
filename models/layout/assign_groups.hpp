#pragma once
// Decides which parameters of a network have numbers of their own in training.
// A pure function; any thread.

#include "config/patterns/param_groups.hpp"
#include "models/layout/flat_layout.hpp"

#include <map>
#include <string>
#include <vector>

namespace troupe::models {

/// Gives each trained parameter the numbers of the first rule that matches one
/// of its names; what the rule leaves open comes from the network.
/// @param of_network By name; one that is not trained is left out.
/// @throws usage_error if a rule matches no parameter that is trained, or if a
/// parameter cannot have its numbers with these settings.
void assign_groups(
  flat_layout& layout,
  const std::map<std::string, config::group_numbers>& of_network,
  const config::training_settings& settings);

} // namespace troupe::models
