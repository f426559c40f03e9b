#include "apps/lab/simulation/simulated_stage.hpp"

#include "actors/runtime/run_clock.hpp"
#include "actors/runtime/spawning.hpp"

#include <optional>
#include <utility>

namespace troupe::simulation {

namespace {

class simulated_stage_state {
public:
  using pointer = stage_actor::stateful_pointer<simulated_stage_state>;

  static constexpr const char* name = "troupe.simulated-stage";

  simulated_stage_state(pointer self, simulated_stage_parts parts)
    : self_(self), parts_(std::move(parts)) {
    // nop
  }

  stage_actor::behavior_type make_behavior() {
    self_->link_to(parts_.stage);
    return {
      [this](forward_atom msg, const module_call& call) {
        return delay(msg, call, 1.0 / 3);
      },
      [this](backward_atom msg, const module_call& call) {
        return delay(msg, call, 2.0 / 3);
      },
      [this](cancel_atom msg, lease_id which) { cancel(msg, which); },
      [this](begin_atom msg, const stage_context_ptr& context) {
        self_->send(parts_.stage, msg, context);
      },
    };
  }

private:
  using promise = caf::typed_response_promise<module_answer>;

  struct waiting {
    lease_id of;
    promise asks;
  };

  template <class Atom>
  caf::result<module_answer> delay(Atom verb, const module_call& call,
                                   double share) {
    auto begin = self_->clock().now();
    auto takes = parts_.shared->draw_seconds(parts_.who, passes_, begin);
    takes *= share * parts_.share;
    waiting_ =
      waiting{call.from.id, self_->make_response_promise<module_answer>()};
    self_->run_delayed(to_timespan(takes), [=, this, number = ++passes_] {
      if (waiting_ && number == passes_) // Otherwise it was cancelled.
        finish(verb, call, takes);
    });
    return waiting_->asks;
  }

  template <class Atom>
  void finish(Atom verb, const module_call& call, double took) {
    auto asks = std::exchange(waiting_, std::nullopt)->asks;
    self_->request(parts_.stage, caf::infinite, verb, call)
      .then(
        [asks, took](module_answer& answer) mutable {
          answer.seconds = took;
          asks.deliver(std::move(answer));
        },
        [asks](const caf::error& why) mutable { asks.deliver(why); });
  }

  void cancel(cancel_atom msg, lease_id which) {
    self_->send(parts_.stage, msg, which);
    if (!waiting_ || waiting_->of != which)
      return;
    module_answer none;
    none.cancelled = true;
    std::exchange(waiting_, std::nullopt)->asks.deliver(std::move(none));
  }

  pointer self_;
  simulated_stage_parts parts_;
  uint64_t passes_ = 0;
  std::optional<waiting> waiting_;
};

} // namespace

stage_actor spawn_simulated_stage(caf::actor_system& system,
                                  simulated_stage_parts parts) {
  return spawn<stage_actor, simulated_stage_state>(system, placement::scheduled,
                                                   std::move(parts));
}

} // namespace troupe::simulation
