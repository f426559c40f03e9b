#pragma once
// Which nodes of a run of peers go on together in its next life: those with
// shards that are left, and those that have joined as workers.
//
// A part of the parameter server's state. Pure; not thread-safe.

#include "messages/ids.hpp"

#include <set>
#include <string>
#include <vector>

namespace troupe {

class next_members {
public:
  /// @param peers Workers of a lower rank have a shard beside them.
  explicit next_members(uint32_t peers) : peers_(peers) {
    // nop
  }

  void joined(worker_id who) {
    if (who.value >= peers_)
      joiners_.insert(who);
  }

  void left(worker_id who) { joiners_.erase(who); }

  bool has_joiners() const { return !joiners_.empty(); }

  /// The nodes with these shards go on, with all that have joined.
  void lost_all_but(std::vector<shard_id> left, const std::string& why) {
    choose_shards(std::move(left));
    line_ = why + "; the nodes that are left, " + std::to_string(all_.size()) +
            ", go on from the newest checkpoint";
  }

  /// The server begins anew, with shards that wait for it.
  void begin_anew(const std::string& why) {
    choose_shards({shard_id{0}});
    line_ = why + " while this process stood still; it goes on from the newest "
                  "checkpoint";
  }

  /// All go on, so that those that have joined get shards.
  void deal_anew() {
    std::vector<shard_id> peers;
    for (uint32_t rank = 0; rank < peers_; ++rank)
      peers.push_back(shard_id{rank});
    choose_shards(std::move(peers));
    line_ = std::to_string(joiners_.size()) + " joined; the nodes, " +
            std::to_string(all_.size()) + " now, go on from a new checkpoint";
  }

  /// They do without NCCL.
  void do_without_nccl() { without_nccl_ = true; }

  bool without_nccl() const { return without_nccl_; }

  /// Nobody goes on.
  void clear() { all_.clear(); }

  /// As in `run_end`; empty: there is no next life.
  const std::vector<shard_id>& all() const { return all_; }

  const std::string& line() const { return line_; } ///< For the user.

private:
  void choose_shards(std::vector<shard_id> shards) {
    all_ = std::move(shards);
    for (auto who : joiners_)
      all_.push_back(shard_id{who.value});
  }

  uint32_t peers_;
  std::set<worker_id> joiners_;
  std::vector<shard_id> all_;
  std::string line_;
  bool without_nccl_ = false;
};

} // namespace troupe
