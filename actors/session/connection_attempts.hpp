#pragma once
// What session clients have in common: a series of attempts to get a place.

#include "actors/core/backoff.hpp"
#include "actors/runtime/still_valid.hpp"
#include "messages/interfaces.hpp"

#include <optional>
#include <utility>
#include <variant>

namespace troupe {

/// Whoever is to be brought onto the stage.
using participant = std::variant<worker_actor, evaluator_actor>;

/// Sends the participant a message that workers and evaluators know.
template <class Self, class... Ts>
void tell(Self* self, const participant& whom, const Ts&... message) {
  std::visit([&](const auto& who) { self->send(who, message...); }, whom);
}

/// Which answers still count, and when to try again. A member of a session
/// client's state; the time is an argument.
class connection_attempts {
public:
  connection_attempts(double give_up, uint64_t jitter_seed)
    : backoff_({.give_up = give_up}, {jitter_seed}, 0) {
    // nop
  }

  /// A new attempt: what was asked in earlier ones is of no interest any more.
  void begin() {
    ++number_;
    under_way_ = true;
  }

  /// The attempt came to nothing, or the place is lost: s until the next one,
  /// or nothing when it is time to give up.
  std::optional<double> failed(double now) {
    begin();
    return backoff_.next(now);
  }

  /// There is a place.
  void succeeded() {
    under_way_ = false;
    backoff_.reset();
  }

  /// There will be no more attempts.
  void end() { ++number_; }

  bool under_way() const { return under_way_; }

  /// How many have failed in a row.
  uint32_t failures() const { return backoff_.failures(); }

  /// Wraps the handler of an answer that counts in this attempt only.
  template <class F>
  auto in_this_one(F f) {
    return while_unchanged(number_, std::move(f));
  }

private:
  cores::backoff backoff_;
  uint64_t number_ = 0;
  bool under_way_ = false;
};

} // namespace troupe
