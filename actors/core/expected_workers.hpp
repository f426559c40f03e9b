#pragma once
// Which workers may still come, so that a server that has none knows whether
// there is anybody to wait for.
//
// Workers are started by whoever wants to: one that was stopped, killed or cut
// off may come again, be it hours later. One that has failed by itself does not
// count: unless the cause is removed, it would fail again.
//
// A node that has a shard beside its worker starts that worker once, and goes
// on without it when it has ended. So such a worker may come until it has
// ended, well or not. Workers that have joined such nodes are not waited for.
//
// A part of the coordinator's state. Pure; not thread-safe.

#include "messages/ids.hpp"

#include <cstdint>
#include <set>

namespace troupe::cores {

enum class departure : uint8_t {
  lost = 1, ///< Its connection broke, it is silent, or it only pauses.
  ended,    ///< Its process has ended, or the worker in it.
  failed    ///< It has failed by itself, or was expelled.
};

class expected_workers {
public:
  /// @param kept Workers of a lower rank have a shard beside them.
  explicit expected_workers(uint32_t kept) : kept_(kept) {
    for (uint32_t rank = 0; rank < kept; ++rank)
      away_.insert(worker_id{rank});
  }

  void came(worker_id who) { away_.erase(who); }

  void left(worker_id who, departure how) {
    auto again = kept_ == 0 ? how != departure::failed
                            : who.value < kept_ && how == departure::lost;
    if (again)
      away_.insert(who);
    else
      away_.erase(who);
  }

  /// Whether no worker that is absent may still come.
  bool none() const { return away_.empty(); }

private:
  uint32_t kept_;
  std::set<worker_id> away_; ///< Who may come.
};

} // namespace troupe::cores
