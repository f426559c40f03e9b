#pragma once
// A series of attempts to get a place in the cluster, with growing delays
// between them.
//
// A member of a session client's state, called on its thread; not thread-safe.

#include "actors/core/backoff.hpp"
#include "actors/runtime/still_valid.hpp"
#include "messages/interfaces.hpp"

#include <optional>
#include <utility>

namespace troupe {

/// Knows which answers still count, and when to try again. Times are arguments.
class connection_attempts {
public:
  /// @param longest Delay between two attempts, in s.
  connection_attempts(double give_up, uint64_t jitter_seed, double longest = 5)
    : backoff_({.cap = longest, .give_up = give_up}, {jitter_seed}, 0),
      give_up_(give_up) {
    // nop
  }

  /// Begins a new attempt: answers to earlier ones are ignored.
  void begin() {
    ++number_;
    under_way_ = true;
    asked_ = {};
  }

  /// A request of this attempt is under way to an actor that may be elsewhere.
  /// CAF does not answer a request whose receiver is lost with its connection,
  /// so the down handler of `self` asks `lost_with`.
  template <class Self>
  void asks(Self* self, const caf::strong_actor_ptr& whom) {
    self->monitor(whom);
    asked_ = caf::actor_cast<caf::actor_addr>(whom);
  }

  /// The request has its answer.
  template <class Self>
  void answered(Self* self) {
    self->demonitor(std::exchange(asked_, {}));
  }

  /// Whether this attempt waits for an answer of that actor, which is gone.
  bool lost_with(const caf::actor_addr& gone) const {
    return asked_ && asked_ == gone;
  }

  /// The attempt failed, or the place was lost. Returns the seconds until the
  /// next attempt, or nothing when it is time to give up.
  std::optional<double> failed(double now) {
    begin();
    return backoff_.next(now);
  }

  /// The other side is still starting, and has done this much work. If that is
  /// another amount than before, the time to give up begins anew. Returns
  /// whether it is.
  bool starts(uint64_t work, double now) { return backoff_.reached(work, now); }

  /// The attempt got a place.
  void succeeded() {
    under_way_ = false;
    backoff_.reset();
  }

  /// Ends the series: no more attempts follow.
  void end() { ++number_; }

  bool under_way() const { return under_way_; }

  /// s without a place before giving up.
  double give_up() const { return give_up_; }

  /// How many attempts have failed in a row.
  uint32_t failures() const { return backoff_.failures(); }

  /// Whether the user is to be told that this node waits: once in a series of
  /// failures, when it has lasted for so many seconds. To be asked at each.
  bool is_news(double now, double quiet) {
    if (failures() == 1) {
      since_ = now;
      said_ = false;
    }
    return now - since_ >= quiet && !std::exchange(said_, true);
  }

  /// Wraps the handler of an answer so that it runs only during this attempt.
  template <class F>
  auto in_this_one(F f) {
    return while_unchanged(number_, std::move(f));
  }

private:
  cores::backoff backoff_;
  double give_up_;
  uint64_t number_ = 0;
  caf::actor_addr asked_;
  bool under_way_ = false;
  double since_ = 0;  ///< When the first attempt of the series failed.
  bool said_ = false; ///< The user was told that this node waits.
};

/// Seconds that nodes have to find a lead that begins anew, without a word.
inline constexpr double time_to_begin_anew = 3;

} // namespace troupe
