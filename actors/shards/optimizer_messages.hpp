#pragma once
// Groups of parameters and their norms as shards tell them to each other. Pure
// functions; any thread.

#include "messages/shards.hpp"
#include "models/optim/groups.hpp"
#include "models/optim/optimizer.hpp"

#include <span>
#include <vector>

namespace troupe {

void describe(const models::parameter_groups& groups, shard_state& out);

models::parameter_groups groups_of(const shard_state& state);

shard_measures to_message(std::span<const models::parameter_squares> measured);

/// Appends what a shard has measured.
void add(const shard_measures& from,
         std::vector<models::parameter_squares>& to);

} // namespace troupe
