#include "actors/control/grants.hpp"

#include <algorithm>

namespace troupe::control {

void grants::publish(caf::actor_id whom) {
  std::lock_guard guard{mutex_};
  published_.insert(whom);
}

void grants::allow(const caf::node_id& node, caf::actor_id whom) {
  std::lock_guard guard{mutex_};
  if (auto found = members_.find(node); found != members_.end())
    found->second.allowed.insert(whom);
}

bool grants::allows(const caf::node_id& node, caf::actor_id whom) const {
  std::lock_guard guard{mutex_};
  if (published_.contains(whom))
    return true;
  auto found = members_.find(node);
  return found != members_.end() && found->second.allowed.contains(whom);
}

size_t grants::count(const caf::node_id& node) const {
  std::lock_guard guard{mutex_};
  auto found = members_.find(node);
  return found == members_.end() ? 0 : found->second.allowed.size();
}

bool grants::is_published(caf::actor_id whom) const {
  std::lock_guard guard{mutex_};
  return published_.contains(whom);
}

bool grants::enter(const caf::node_id& node,
                   const std::optional<shown_certificate>& who) {
  std::lock_guard guard{mutex_};
  return members_.try_emplace(node, member{who, {}}).second;
}

std::string grants::objection(const caf::node_id& node,
                              const std::string& role) const {
  std::lock_guard guard{mutex_};
  auto found = members_.find(node);
  if (found == members_.end() || !found->second.certificate)
    return "";
  const auto& [name, roles] = *found->second.certificate;
  if (std::ranges::find(roles, role) != roles.end())
    return "";
  return "its certificate '" + name + "' is not for the role " + role +
         ": issue one with --role " + role;
}

bool grants::has_certificate(const caf::node_id& node) const {
  std::lock_guard guard{mutex_};
  auto found = members_.find(node);
  return found != members_.end() && found->second.certificate.has_value();
}

void grants::leave(const caf::node_id& node) {
  std::lock_guard guard{mutex_};
  members_.erase(node);
}

} // namespace troupe::control
