#pragma once
// What other nodes may do in this process: the roles of their certificates, and
// the actors that they may address. Those are the published ones, and for each
// node those that were handed out to it. Thread-safe.

#include <caf/fwd.hpp>
#include <caf/node_id.hpp>

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace troupe::control {

/// What a node has shown.
struct shown_certificate {
  std::string name;
  std::vector<std::string> roles;
};

class grants {
public:
  /// Every node may address this actor.
  void publish(caf::actor_id whom);

  /// This node may address an actor, as long as it is connected.
  void allow(const caf::node_id& node, caf::actor_id whom);

  bool allows(const caf::node_id& node, caf::actor_id whom) const;

  /// How many actors were given to a node.
  size_t count(const caf::node_id& node) const;

  bool is_published(caf::actor_id whom) const;

  /// A connection is this node's, which has shown this; or nothing, where no
  /// certificate is asked for. False if another one is already.
  bool enter(const caf::node_id& node,
             const std::optional<shown_certificate>& who);

  /// Why this node may not have a role; empty: it may.
  std::string objection(const caf::node_id& node,
                        const std::string& role) const;

  /// Whether this node has shown a certificate.
  bool has_certificate(const caf::node_id& node) const;

  /// The connection is closed.
  void leave(const caf::node_id& node);

private:
  mutable std::mutex mutex_;
  std::set<caf::actor_id> published_;
  struct member {
    std::optional<shown_certificate> certificate;
    std::set<caf::actor_id> allowed;
  };

  std::map<caf::node_id, member> members_;
};

using grants_ptr = std::shared_ptr<grants>;

} // namespace troupe::control
