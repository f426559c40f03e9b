#include "apps/startup/known_nodes.hpp"

#include "actors/recording/console.hpp"
#include "apps/startup/hello.hpp"
#include "apps/startup/next_life.hpp"
#include "config/run_folder/run_lock.hpp"
#include "messages/run_record.hpp"

#include <algorithm>
#include <utility>

namespace troupe::app {

known_nodes::known_nodes(const config::settings& settings,
                         const std::optional<config::next_life>& before)
  : settings_(settings) {
  if (before) {
    life_ = before->before;
    peers_ = before->peers;
    if (life_.directory.empty() && !life_.run_id.empty())
      cannot_lead_ = "it does not have the run's folder, with a lock";
  } else {
    life_.nodes = {{settings.cluster.host, settings.cluster.port}};
  }
  if (settings.what == config::role::ps)
    rank_ = shard_id{settings.cluster.rank.value_or(0)};
}

void known_nodes::note_listening(const config::address& bound,
                                 const config::address& advertised) {
  std::lock_guard guard{mutex_};
  bound_ = bound;
  if (is_lead())
    life_.nodes.front() = advertised_.emplace(advertised);
}

void known_nodes::require_allowed(const config::address& where,
                                  const config::address& from) const {
  if (!settings_.cluster.leaves_host())
    config::require_loopback(where,
                             "the lead shard at " + config::to_string(from));
}

// Only a lead whose nodes can go on without it says where the run's files are.
void known_nodes::note(const proto::Welcome& welcome,
                       const config::address& lead, worker_id as) {
  auto joined = join_settings(settings(), welcome);
  auto run = description_of(welcome);
  std::lock_guard guard{mutex_};
  config::run_life life{run.run_id,
                        run.life,
                        {advertised_.value_or(lead)},
                        welcome.run_directory()};
  if (!life.directory.empty())
    for (const auto& shard : welcome.shards()) {
      life.nodes.push_back({shard.host(), static_cast<uint16_t>(shard.port())});
      require_allowed(life.nodes.back(), lead);
    }
  settings_ = std::move(joined);
  rank_ = shard_id{as.value};
  if (life != life_)
    warned_.clear();
  life_ = std::move(life);
  if (life_.directory.empty()) {
    if (survives_losses(settings_))
      warn(
        "no other node can lead this run when rank 0 is lost: its folder has "
        "no lock that keeps two leads apart");
    return;
  }
  peers_ = static_cast<uint32_t>(life_.nodes.size());
  look_at_lock();
}

// The lead holds the lock now. A node that does not see this could take the
// lock beside a living lead: its file system has no locks, or keeps them within
// a host.
void known_nodes::look_at_lock() {
  auto [state, holder] = config::run_lock::look(life_.directory);
  holder_ = holder;
  cannot_lead_.clear();
  auto folder = life_.directory.string();
  if (state == config::lock_state::free)
    cannot_lead_ = "it does not see that rank 0 holds the lock of " + folder +
                   ", so it could lead beside it";
  auto why = cannot_lead_;
  if (state == config::lock_state::absent)
    why = folder + " is not here, or has no locks";
  if (!why.empty())
    warn("this node cannot lead the run when rank 0 is lost: " + why);
}

// A node calls `note` twice in a life, for its shard and for its worker, but
// says each line once.
void known_nodes::warn(const std::string& line) {
  if (!is_lead() && std::exchange(warned_, line) != line)
    recording::say("warning      " + line);
}

bool known_nodes::is_lead() const {
  return rank_ == shard_id{0};
}

std::optional<std::string> known_nodes::holder_of_lock() const {
  std::unique_lock guard{mutex_};
  auto folder = life_.directory;
  auto expected = holder_;
  auto trusted = cannot_lead_.empty() && !folder.empty();
  guard.unlock(); // A file server may take its time.
  if (!trusted)
    return std::nullopt;
  auto [state, holder] = config::run_lock::look(folder);
  if (state != config::lock_state::held ||
      (!expected.empty() && holder != expected))
    return std::nullopt;
  return holder;
}

std::optional<run_end> known_nodes::without_lead(const std::string& why) const {
  std::lock_guard guard{mutex_};
  if (life_.nodes.size() < 2)
    return std::nullopt;
  auto lost = "rank 0 at " + config::to_string(life_.nodes.front()) +
              " is lost (" + why + ")";
  if (rank_ == shard_id{1} && !cannot_lead_.empty())
    return run_end{1, lost +
                        ", and this node cannot lead the run: " + cannot_lead_ +
                        "; start the run again with --resume auto"};
  run_end out{1, {}};
  for (uint32_t rank = 1; rank < peers_; ++rank)
    out.next.push_back(shard_id{rank});
  out.line = lost + "; the nodes that are left, " +
             std::to_string(out.next.size()) +
             ", go on from the newest checkpoint";
  return out;
}

std::vector<config::address> known_nodes::others() const {
  std::lock_guard guard{mutex_};
  std::vector<config::address> out;
  for (uint32_t rank = 1; rank < life_.nodes.size(); ++rank)
    if (rank_ != shard_id{rank})
      out.push_back(life_.nodes[rank]);
  return out;
}

std::optional<config::address> known_nodes::address() const {
  std::lock_guard guard{mutex_};
  if (!rank_ || rank_->value == 0 || rank_->value >= life_.nodes.size())
    return std::nullopt;
  return life_.nodes[rank_->value];
}

run_end known_nodes::go_elsewhere(const proto::Welcome& run) {
  auto here = address().value();
  std::lock_guard guard{mutex_};
  auto from = life_.nodes.front();
  life_.nodes.clear();
  for (const auto& node : run.nodes()) {
    life_.nodes.push_back({node.host(), static_cast<uint16_t>(node.port())});
    require_allowed(life_.nodes.back(), from);
  }
  peers_ = run.peers();
  auto mine = std::ranges::find(life_.nodes, here) - life_.nodes.begin();
  rank_ = shard_id{static_cast<uint32_t>(mine)};
  run_end out{1, "the run has other nodes by now, " + std::to_string(peers_) +
                   ", led from " + config::to_string(life_.nodes.front()) +
                   "; this one goes on with them"};
  for (uint32_t rank = 0; rank < peers_; ++rank)
    out.next.push_back(shard_id{rank});
  return out;
}

config::run_life known_nodes::life() const {
  std::lock_guard guard{mutex_};
  auto out = life_;
  if (!cannot_lead_.empty())
    out.directory.clear();
  return out;
}

config::address known_nodes::bound() const {
  std::lock_guard guard{mutex_};
  return bound_;
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
