#pragma once
// Checks what workers are given of the weights, where they go on with their
// own: a fragment to merge only after a gradient that was taken, and in turn.
//
// A part of the invariant checker, which tells it what happens; not
// thread-safe.

#include "actors/core/fragment_turns.hpp"
#include "messages/ids.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <string>

namespace troupe::simulation {

class fragment_watch {
public:
  /// @param count Of the fragments.
  explicit fragment_watch(uint32_t count) : count_(count) {
    // nop
  }

  /// A gradient was taken.
  void accepted(const push_id& id) { last_[id.worker].taken = id; }

  void dropped(const push_id& id) {
    if (auto found = last_.find(id.worker);
        found != last_.end() && found->second.taken == id)
      found->second.taken.reset();
  }

  /// The worker asks anew, is another life, or its gradient was refused.
  void begins_anew(worker_id who) { last_[who].taken.reset(); }

  /// Returns what is wrong, if something is.
  std::optional<std::string> released(worker_id who,
                                      const cores::fragment_turn& turn) {
    auto& its = last_[who];
    auto was = its.fragment;
    auto after_gradient = its.taken.has_value();
    its = {std::nullopt, turn.pushes};
    if (!turn.goes_on)
      return std::nullopt;
    if (!after_gradient)
      return "goes on, and has pushed no gradient that was taken";
    if (turn.pushes != (was + 1) % count_)
      return "is to push fragment " + std::to_string(turn.pushes) + " after " +
             std::to_string(was);
    return std::nullopt;
  }

private:
  struct last {
    std::optional<push_id> taken; ///< Since it was given weights.
    uint32_t fragment = 0;        ///< That it was to push.
  };

  uint32_t count_;
  std::map<worker_id, last> last_;
};

} // namespace troupe::simulation
