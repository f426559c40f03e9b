#pragma once
// Ensures that a push is handled at most once: tells a new push from the retry
// of an old one.
//
// A worker numbers its pushes 1, 2, ... within one life and has at most a fixed
// number of them in flight: it sends number k only after number k - in_flight
// was answered or given up. So the window remembers only a few numbers per
// worker, however long the run is. Numbers may be skipped (a push that was
// given up on the way), and may arrive out of order within the window.
//
// Owned by the step scheduler. A value; not thread-safe.

#include "actors/policies/by_rank.hpp"
#include "messages/ids.hpp"

#include <string_view>
#include <vector>

namespace troupe::cores {

/// What the window says of a push.
enum class freshness : uint8_t {
  fresh,             ///< Not seen before; it is pending from now on.
  duplicate_pending, ///< A retry; the first one is not answered yet.
  duplicate_done,    ///< A retry of one that was answered or is too old:
                     ///< acknowledge it again, do not apply it.
  stale_incarnation, ///< From another life than the one in the cluster.
  out_of_order       ///< Breaks the protocol: number 0, or more in flight
                     ///< than agreed.
};

std::string_view to_string(freshness x);

class push_window {
public:
  /// Workers have at most `in_flight` pushes unanswered.
  explicit push_window(uint32_t in_flight = 1);

  /// A worker begins a life. Pushes of all its other lives are stale.
  void set_life(worker_id who, life_number life);

  /// A worker has left: all of its pushes are stale until its next life.
  void forget(worker_id who);

  /// What `admit` would return; changes nothing.
  freshness look_at(const push_id& id) const;

  /// Classifies a push that arrived, and remembers it when it is fresh.
  [[nodiscard]] freshness admit(const push_id& id);

  /// A pending push was answered (applied, dropped or refused). False when it
  /// is not pending.
  bool done(const push_id& id);

  /// The worker was told to continue, so its pushes count as answered, even if
  /// a policy holds its gradient for a later step.
  void answered(worker_id who);

private:
  struct record {
    life_number life;
    uint64_t last = 0;             ///< The highest number seen.
    std::vector<uint64_t> pending; ///< Seen, not answered.
    std::vector<uint64_t> skipped; ///< Below `last`, may still arrive.
  };

  uint32_t in_flight_;
  policies::by_rank<record> workers_;
};

} // namespace troupe::cores
