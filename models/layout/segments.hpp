#pragma once
// How a network is cut into segments with different owners (`--placement`), and
// the layout that follows from it. Free functions; any thread.

#include "config/patterns/placement.hpp"
#include "config/text/settings.hpp"
#include "models/layout/flat_layout.hpp"
#include "models/layout/shard_cuts.hpp"
#include "models/network.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace troupe::models {

/// A run of parts of a network with one owner.
struct placed_segment {
  part_range parts;
  std::optional<uint32_t> server; ///< Rank of the shard; nothing: the worker.
  std::string device{};           ///< As in a placement_rule.

  bool operator==(const placed_segment&) const = default;
};

/// Whether a tensor of this name belongs to one of the parts.
bool belongs(const std::string& name, network& net, const part_range& parts);

/// Where the statistics of these parts lie among all statistics.
element_range statistics_of(network& net, const flat_layout& layout,
                            const part_range& parts);

/// The segments of a network by these rules, in the order of forward: the first
/// rule that matches one of the modules of a part decides. Without rules the
/// whole network is on the shard of rank 0.
/// @throws usage_error for a rule that decides for no part, or a part that no
/// rule matches.
std::vector<placed_segment>
segments_of(network& net, const std::vector<config::placement_rule>& rules);

/// The same for the stages of a pipeline, which are all with the worker: one
/// for each rule.
/// @throws usage_error also if the parts of a rule are no run.
std::vector<placed_segment>
stages_of(network& net, const std::vector<config::placement_rule>& rules);

/// "conv1 to layer2.1 with the worker, layer3.0 to fc on ps:0"
std::string describe(network& net, const std::vector<placed_segment>& segments);

/// The layout of a network with these settings. Parameters on shards of ranks
/// 1, 2, ... come first, then those of rank 0, then those of the worker.
/// @throws as segments_of, flat_layout::from and assign_groups.
flat_layout layout_of(network& net, const config::training_settings& settings);

/// The same for a network by name.
flat_layout layout_of(const config::training_settings& settings,
                      int64_t classes);

/// The weights of that network as its seed draws them.
whole_weights draw_weights(const config::training_settings& settings,
                           int64_t classes);

/// Copies the first values of these constants of that network to their places.
void read_constants(const config::training_settings& settings,
                    const std::vector<parameter_slot>& which,
                    const at::Tensor& frozen);

/// The shard that has a parameter; nothing: the worker.
/// @throws usage_error if it is in none of the network's parts.
std::optional<uint32_t> owner_of(const std::string& parameter, network& net,
                                 const std::vector<placed_segment>& segments);

/// Elements of the parameters that are with the worker, which are the last.
/// @throws usage_error if a parameter is in none of the network's parts.
uint64_t parameters_with_worker(network& net, const flat_layout& layout,
                                const std::vector<placed_segment>& segments);

} // namespace troupe::models
