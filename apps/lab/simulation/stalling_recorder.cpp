#include "apps/lab/simulation/stalling_recorder.hpp"

#include "actors/runtime/spawning.hpp"

#include <caf/send.hpp>

#include <deque>
#include <functional>
#include <utility>

namespace troupe::simulation {

namespace {

class stalling_recorder_state {
public:
  using pointer = recorder_actor::stateful_pointer<stalling_recorder_state>;

  static constexpr const char* name = "troupe.stalling-recorder";

  stalling_recorder_state(pointer self, recorder_actor real,
                          std::shared_ptr<const machine> shared)
    : self_(self), real_(std::move(real)), shared_(std::move(shared)) {
    // nop
  }

  recorder_actor::behavior_type make_behavior() {
    self_->link_to(real_);
    return {
      [this](note_atom, const note_ptr& entry) {
        return pass(note_atom_v, entry);
      },
      [this](finish_atom, const note_ptr& entry) {
        return pass(finish_atom_v, entry);
      },
    };
  }

private:
  template <class Atom>
  caf::result<void> pass(Atom kind, const note_ptr& entry) {
    if (!self_->current_message_id().is_request()) {
      // The sender is told of errors.
      auto from = caf::actor_cast<lead_actor>(self_->current_sender());
      in_turn([=, this] { caf::send_as(from, real_, kind, entry); });
      return caf::unit;
    }
    auto asks = self_->make_response_promise<void>();
    in_turn([=, this]() mutable {
      self_->request(real_, caf::infinite, kind, entry)
        .then([asks]() mutable { asks.deliver(); },
              [asks](const caf::error& why) mutable { asks.deliver(why); });
    });
    return asks;
  }

  void in_turn(std::function<void()> work) {
    if (waiting_.empty() && !stalls())
      return work();
    waiting_.push_back(std::move(work));
    if (waiting_.size() == 1)
      wake_later();
  }

  bool stalls() const {
    return self_->clock().now() < shared_->recorder_stalls_until;
  }

  void wake_later() {
    self_->run_delayed(shared_->recorder_stalls_until - self_->clock().now(),
                       [this] { wake(); });
  }

  void wake() {
    if (stalls())
      return wake_later();
    for (auto& one : std::exchange(waiting_, {}))
      one();
  }

  pointer self_;
  recorder_actor real_;
  std::shared_ptr<const machine> shared_;
  std::deque<std::function<void()>> waiting_;
};

} // namespace

recorder_actor
spawn_stalling_recorder(caf::actor_system& system, const recorder_actor& real,
                        const std::shared_ptr<const machine>& shared) {
  return spawn<recorder_actor, stalling_recorder_state>(
    system, placement::scheduled, real, shared);
}

} // namespace troupe::simulation
