#include "apps/startup/known_nodes.hpp"

#include "apps/startup/hello.hpp"
#include "messages/run_record.hpp"

#include <utility>

namespace troupe::app {

known_nodes::known_nodes(const config::settings& settings,
                         const std::optional<config::next_life>& before)
  : settings_(settings) {
  if (before) {
    life_ = before->before;
    peers_ = before->peers;
  } else {
    life_.nodes = {{settings.cluster.host, settings.cluster.port}};
  }
  if (settings.what == config::role::ps)
    rank_ = shard_id{settings.cluster.rank.value_or(0)};
}

// Only a lead whose nodes can go on without it says where the run's files are.
void known_nodes::note(const proto::Welcome& welcome,
                       const config::address& lead, worker_id as) {
  auto joined = join_settings(settings(), welcome);
  auto run = description_of(welcome);
  std::lock_guard guard{mutex_};
  settings_ = std::move(joined);
  rank_ = shard_id{as.value};
  life_ = {run.run_id, run.life, {lead}, welcome.run_directory()};
  if (life_.directory.empty())
    return;
  for (const auto& shard : welcome.shards())
    life_.nodes.push_back({shard.host(), static_cast<uint16_t>(shard.port())});
  peers_ = static_cast<uint32_t>(life_.nodes.size());
}

std::optional<run_end> known_nodes::without_lead(const std::string& why) const {
  std::lock_guard guard{mutex_};
  if (life_.nodes.size() < 2)
    return std::nullopt;
  run_end out{1, {}};
  for (uint32_t rank = 1; rank < peers_; ++rank)
    out.next.push_back(shard_id{rank});
  out.line = "rank 0 at " + config::to_string(life_.nodes.front()) +
             " is lost (" + why + "); the nodes that are left, " +
             std::to_string(out.next.size()) +
             ", go on from the newest checkpoint";
  return out;
}

config::run_life known_nodes::life() const {
  std::lock_guard guard{mutex_};
  return life_;
}

config::settings known_nodes::settings() const {
  std::lock_guard guard{mutex_};
  return settings_;
}

std::optional<shard_id> known_nodes::rank() const {
  std::lock_guard guard{mutex_};
  return rank_;
}

} // namespace troupe::app
