#include "actors/core/part_assignment.hpp"

#include <utility>

namespace troupe::cores {

namespace {

std::string text(const owned_data& x) {
  return std::to_string(x.samples) + " samples";
}

} // namespace

part_assignment::part_assignment(uint32_t parts,
                                 std::map<worker_id, owned_data> known)
  : parts_(parts), owners_(std::move(known)) {
  // nop
}

std::variant<worker_id, no_part>
part_assignment::assign_part(std::optional<worker_id> wish,
                             const owned_data& data,
                             const std::function<bool(worker_id)>& live) {
  if (data.samples == 0)
    return no_part{true, "it has no samples of its own for training"};
  if (wish && wish->value >= parts_)
    return no_part{true, "--rank " + to_string(*wish) +
                           ": with --sharding "
                           "local ranks are "
                           "below " +
                           std::to_string(parts_) + ", the number of workers"};
  if (wish)
    if (auto found = owners_.find(*wish);
        found != owners_.end() && found->second != data)
      return refuse(*wish, data);
  auto result =
    wish ? std::variant<worker_id, no_part>{*wish} : look(data, live);
  if (auto* rank = std::get_if<worker_id>(&result))
    owners_[*rank] = data;
  return result;
}

// The rank that has this data, else the first that has none yet.
std::variant<worker_id, no_part>
part_assignment::look(const owned_data& data,
                      const std::function<bool(worker_id)>& live) const {
  for (const auto& [rank, its] : owners_)
    if (its == data && !live(rank))
      return rank;
  std::optional<worker_id> absent;
  for (worker_id rank{0}; rank.value < parts_; rank = rank.next()) {
    if (live(rank))
      continue;
    if (!owners_.contains(rank))
      return rank;
    absent = absent.value_or(rank);
  }
  if (absent)
    return refuse(*absent, data);
  return no_part{false, "all ranks are taken"};
}

no_part part_assignment::refuse(worker_id rank, const owned_data& data) const {
  const auto& its = owners_.at(rank);
  auto what = text(data);
  if (its.samples == data.samples)
    what += ", which are others";
  return {true, "rank " + to_string(rank) + " trains on " + text(its) +
                  " of its own, and this worker has " + what +
                  ": give it the --data-dir of that rank"};
}

} // namespace troupe::cores
