#include "actors/recording/peer_names.hpp"

#include "config/text/text.hpp"

#include <cstdlib>
#include <utility>

namespace troupe::recording {

namespace {

/// The most names that wait for a place: anybody can say hello without ever
/// taking one.
constexpr size_t most_without_place = 4096;

/// "host/4711" as "host, pid 4711".
std::string shown_name(const std::string& name) {
  auto slash = name.rfind('/');
  if (slash == std::string::npos)
    return config::shown(name);
  return config::shown(name.substr(0, slash)) + ", pid " +
         config::shown(name.substr(slash + 1));
}

} // namespace

void peer_names::said(const caf::node_id& process, const std::string& name) {
  if (!process || name.empty())
    return;
  std::unique_lock guard{mutex_};
  if (said_.size() >= most_without_place)
    said_.clear();
  said_.insert_or_assign(process, name);
}

void peer_names::seated(worker_id who, const caf::node_id& process) {
  std::unique_lock guard{mutex_};
  seated_.erase(who);
  if (auto found = said_.extract(process))
    seated_.emplace(who, std::move(found.mapped()));
}

std::string peer_names::of(worker_id who) const {
  std::unique_lock guard{mutex_};
  auto found = seated_.find(who);
  return found == seated_.end() ? "" : shown_name(found->second);
}

std::optional<process_name> peer_names::process_of(worker_id who) const {
  std::unique_lock guard{mutex_};
  auto found = seated_.find(who);
  if (found == seated_.end())
    return std::nullopt;
  const auto& name = found->second;
  auto slash = name.rfind('/');
  if (slash == std::string::npos)
    return process_name{config::shown(name), 0};
  return process_name{config::shown(name.substr(0, slash)),
                      std::atoi(name.c_str() + slash + 1)};
}

} // namespace troupe::recording
