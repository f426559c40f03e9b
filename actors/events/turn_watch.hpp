#pragma once
// How long the turns of workers take, from the weights to the gradient, loading
// included; a subscriber of the server's events. It notices
//
// - workers that hang: their process answers, but no gradient comes. A worker
//   is measured by itself: it hangs when its turn takes ten times as long as
//   nearly all of its turns did, and others have pushed meanwhile;
// - workers that are late: they take twice as long as the quickest one. That
//   matters only where others have nothing else to do.
//
// Owned by the parameter server and called on its thread; not thread-safe.

#include "actors/events/event.hpp"
#include "actors/policies/by_rank.hpp"

#include <cstdint>
#include <deque>
#include <limits>
#include <optional>
#include <string>
#include <vector>

namespace troupe {

class turn_watch final : public event_subscriber {
public:
  /// @param limit s that a turn may take; nothing: it depends on the worker's
  /// own turns, and a worker that has made few of them does not hang. 0: nobody
  /// hangs.
  explicit turn_watch(std::optional<double> limit) : limit_(limit) {
    // nop
  }

  void on_event(const event& entry) override;

  struct hung {
    worker_id who;
    life_number life;
    std::string reason; ///< As a text for people.
  };

  /// s between two calls of `look`.
  double interval() const;

  /// To be called at intervals: the workers that hang since the last call. Time
  /// that a call comes late counts for nobody: then this process stood still
  /// itself, and perhaps all others with it.
  /// @param listens Whether the server handles requests; else nobody hangs.
  std::vector<hung> look(caf::actor_clock::time_point now, bool listens);

  /// Whether the worker is late, at the time of the last look.
  bool is_late(worker_id who) const;

private:
  using time_point = caf::actor_clock::time_point;

  struct worker {
    life_number life;
    std::optional<double> began{};  ///< When its turn began, in seconds awake.
    std::optional<double> pushed{}; ///< When it pushed last.
    std::deque<double> turns{};     ///< s; the last ones.
  };

  double awake(time_point now) const;
  void end_turn(worker_id who, double now);
  double lasts(const worker& one) const;
  double limit_of(const worker& one) const;
  bool others_pushed_since(worker_id who, double then) const;

  std::optional<double> limit_;
  std::optional<time_point> first_;
  std::optional<time_point> looked_;
  double stood_still_ = 0; ///< s of this process.
  /// The usual turn of the quickest worker, at the last look.
  double quickest_ = std::numeric_limits<double>::infinity();
  policies::by_rank<worker> workers_;
};

} // namespace troupe
