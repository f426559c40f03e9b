#include "actors/shards/optimizer_messages.hpp"

namespace troupe {

namespace {

shard_squares to_message(const models::exact_sum& sum) {
  return {{sum.parts().begin(), sum.parts().end()}};
}

models::exact_sum sum_of(const shard_squares& squares) {
  models::exact_sum out;
  for (double part : squares.parts)
    out.add(part);
  return out;
}

} // namespace

void describe(const models::parameter_groups& groups, shard_state& out) {
  for (const auto& [lr_factor, weight_decay, momentum] : groups.terms)
    out.groups.push_back({lr_factor, weight_decay, momentum});
  for (const auto& [end, parameter, group] : groups.parts)
    out.parts.push_back({end, parameter, group});
}

models::parameter_groups groups_of(const shard_state& state) {
  models::parameter_groups out;
  for (const auto& [lr_factor, weight_decay, momentum] : state.groups)
    out.terms.push_back({lr_factor, weight_decay, momentum});
  for (const auto& [end, parameter, group] : state.parts)
    out.parts.push_back({end, parameter, group});
  return out;
}

shard_measures to_message(std::span<const models::parameter_squares> measured) {
  shard_measures out;
  for (const auto& [parameter, weights, step] : measured)
    out.parameters.push_back(
      {parameter, to_message(weights), to_message(step)});
  return out;
}

void add(const shard_measures& from,
         std::vector<models::parameter_squares>& to) {
  for (const auto& [parameter, weights, step] : from.parameters)
    to.push_back({parameter, sum_of(weights), sum_of(step)});
}

} // namespace troupe
