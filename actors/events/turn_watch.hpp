#pragma once
// How long the turns of workers take, from the weights to the gradient, loading
// included; a subscriber of the server's events. It notices
//
// - workers that hang: their process answers, but no gradient comes, and with
//   local steps they make no step. A worker is measured by itself: it hangs
//   when it has shown nothing for ten times as long as in nearly all of its
//   turns, and others have gone on meanwhile;
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
  /// @param limit s that a worker may take for a gradient or a local step;
  /// nothing: it depends on the worker's own turns, and a worker that has made
  /// few of them does not hang. 0: nobody hangs.
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

  /// Workers that have shown nothing for a while, at the time of the last look:
  /// those who make local steps are to be asked for their number.
  std::vector<worker_id> silent() const;

  /// The worker has made so many local steps so far; others are news of it.
  void note_steps(worker_id who, life_number life, uint64_t steps,
                  caf::actor_clock::time_point now);

  /// Whether the worker is late, at the time of the last look.
  bool is_late(worker_id who) const;

private:
  using time_point = caf::actor_clock::time_point;

  struct worker {
    life_number life;
    std::optional<double> began{};   ///< When its turn began, in seconds awake.
    std::optional<double> went_on{}; ///< When it pushed or made a step last.
    double showed = 0;  ///< When it made a step last, or its turn began.
    double silence = 0; ///< s; the longest of its turn so far.
    uint64_t steps = 0; ///< Local ones, as far as is known.
    std::deque<double> turns{};    ///< s; the last ones.
    std::deque<double> silences{}; ///< s; the longest of each of these turns.
  };

  double awake(time_point now) const;
  void end_turn(worker_id who, double now);
  double lasts(const worker& one) const;
  double silence_of(const worker& one) const;
  double limit_of(const worker& one) const;
  bool others_went_on_since(worker_id who, double then) const;

  std::optional<double> limit_;
  std::optional<time_point> first_;
  std::optional<time_point> looked_;
  double stood_still_ = 0; ///< s of this process.
  /// The usual turn of the quickest worker, at the last look.
  double quickest_ = std::numeric_limits<double>::infinity();
  policies::by_rank<worker> workers_;
};

} // namespace troupe
