#pragma once
// The remote modules beside a server: how many contexts they have, and how they
// learn that training is over. Shared by the server and its modules;
// thread-safe.

#include "messages/interfaces.hpp"

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>

namespace troupe {

class module_roster {
public:
  void join(const module_host_actor& who) {
    std::lock_guard guard{mutex_};
    all_.insert_or_assign(who.id(), who.address());
  }

  void leave(caf::actor_id who) {
    std::lock_guard guard{mutex_};
    all_.erase(who);
  }

  void opened() { ++contexts_; }

  void closed(uint64_t contexts = 1) { contexts_ -= contexts; }

  /// Contexts that are open.
  uint64_t contexts() const { return contexts_; }

  /// Modules that live.
  size_t size() const {
    std::lock_guard guard{mutex_};
    return all_.size();
  }

  /// Tells all that training is over.
  void end() const {
    std::lock_guard guard{mutex_};
    for (const auto& [id, who] : all_)
      if (auto there = caf::actor_cast<caf::strong_actor_ptr>(who))
        caf::anon_send(caf::actor_cast<module_host_actor>(there),
                       ending_atom_v);
  }

private:
  std::atomic<uint64_t> contexts_ = 0;
  mutable std::mutex mutex_;
  std::map<caf::actor_id, caf::actor_addr> all_;
};

using module_roster_ptr = std::shared_ptr<module_roster>;

} // namespace troupe
