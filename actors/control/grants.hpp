#pragma once
// Which actors of this process other nodes may address: those that are
// published, and for each node those that were handed out to it. Thread-safe.

#include <caf/fwd.hpp>
#include <caf/node_id.hpp>

#include <map>
#include <memory>
#include <mutex>
#include <set>

namespace troupe::control {

class grants {
public:
  /// Every node may address this actor.
  void publish(caf::actor_id whom);

  /// This node may address an actor, as long as it is connected.
  void allow(const caf::node_id& node, caf::actor_id whom);

  bool allows(const caf::node_id& node, caf::actor_id whom) const;

  /// A connection is this node's. False if another one is already.
  bool enter(const caf::node_id& node);

  /// The connection is closed.
  void leave(const caf::node_id& node);

private:
  mutable std::mutex mutex_;
  std::set<caf::actor_id> published_;
  std::map<caf::node_id, std::set<caf::actor_id>> allowed_; ///< By node.
};

using grants_ptr = std::shared_ptr<grants>;

} // namespace troupe::control
