#pragma once
// What a node of a run of peers knows of the others: where they are, and where
// the run's files lie. So those that are left go on together when the lead has
// died: the lowest rank that lives leads the next life, if it sees that the
// lock of the run keeps two leads apart.
//
// Made by main. Thread-safe: session clients of shards and workers write it,
// and ask it.

#include "config/sources/next_life_settings.hpp"
#include "config/text/settings.hpp"
#include "messages/proto/hello.pb.h"
#include "messages/types.hpp"

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace troupe::app {

class known_nodes {
public:
  /// @param before What this process knew in its last life, if it had one.
  known_nodes(const config::settings& settings,
              const std::optional<config::next_life>& before);

  /// This node listens at `bound`; others are told `advertised`.
  void note_listening(const config::address& bound,
                      const config::address& advertised);

  /// Notes that this node is in a life whose lead is at this address. To be
  /// called when all shards are there, and again when the node's worker has a
  /// place. Throws `usage_error` if this node may not connect to all nodes.
  void note(const proto::Welcome& welcome, const config::address& lead,
            worker_id as);

  /// How this life ends when its lead is lost: for all other nodes, or for this
  /// one if it would lead them and cannot. Nothing if the other nodes are not
  /// known: then the lead may come back.
  /// @param why For the user.
  std::optional<run_end> without_lead(const std::string& why) const;

  /// The addresses of the other nodes that may lead the run when its lead is
  /// lost.
  std::vector<config::address> others() const;

  /// Where others find this node in all lives; nothing if it was not let in
  /// yet.
  std::optional<config::address> address() const;

  /// How this life ends when a node of the run refuses this one, because this
  /// node has another place among those that go on.
  /// Throws `usage_error` if this node may not connect to them.
  /// @param run Names the nodes that go on.
  run_end go_elsewhere(const proto::Welcome& run);

  /// Who holds the run's lock, if that is still this life's lead, as far as is
  /// known: then nobody else may lead. Nothing if the lock is free, or the
  /// run's files are not here.
  std::optional<std::string> holder_of_lock() const;

  /// The last life that this node had a part in.
  config::run_life life() const;

  /// Where this node listens; without a host if it does not.
  config::address bound() const;

  /// The settings of this node, combined with those of the run.
  config::settings settings() const;

  /// The rank of this node: of its worker, if it has no shard.
  std::optional<shard_id> rank() const;

private:
  void require_allowed(const config::address& where,
                       const config::address& from) const;
  void look_at_lock();
  void warn(const std::string& line);
  bool is_lead() const;

  mutable std::mutex mutex_;
  config::settings settings_;
  config::run_life life_;
  uint32_t peers_ = 1;
  std::optional<shard_id> rank_;
  config::address bound_;
  /// The lead's own, which the others were told; nothing while it is not known.
  std::optional<config::address> advertised_;
  std::string holder_;      ///< Of the lock, when this node was let in.
  std::string cannot_lead_; ///< Why; empty if it can.
  std::string warned_;      ///< The last warning in this life.
};

using known_nodes_ptr = std::shared_ptr<known_nodes>;

} // namespace troupe::app
