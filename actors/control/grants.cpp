#include "actors/control/grants.hpp"

namespace troupe::control {

void grants::publish(caf::actor_id whom) {
  std::lock_guard guard{mutex_};
  published_.insert(whom);
}

void grants::allow(const caf::node_id& node, caf::actor_id whom) {
  std::lock_guard guard{mutex_};
  if (auto found = allowed_.find(node); found != allowed_.end())
    found->second.insert(whom);
}

bool grants::allows(const caf::node_id& node, caf::actor_id whom) const {
  std::lock_guard guard{mutex_};
  if (published_.contains(whom))
    return true;
  auto found = allowed_.find(node);
  return found != allowed_.end() && found->second.contains(whom);
}

bool grants::enter(const caf::node_id& node) {
  std::lock_guard guard{mutex_};
  return allowed_.try_emplace(node).second;
}

void grants::leave(const caf::node_id& node) {
  std::lock_guard guard{mutex_};
  allowed_.erase(node);
}

} // namespace troupe::control
