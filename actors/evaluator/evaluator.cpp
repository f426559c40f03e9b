#include "actors/evaluator/evaluator.hpp"

#include "actors/runtime/unexpected.hpp"

#include <utility>

namespace troupe {

evaluator_state::evaluator_state(pointer self, evaluator_parts parts)
  : self_(self), parts_(std::move(parts)) {
  on_unexpected(self_, [this](const std::string& line) {
    self_->send(parts_.session, ended_atom_v, run_end{1, line});
  });
}

evaluator_actor::behavior_type evaluator_state::make_behavior() {
  return {
    [this](attach_atom, const parameter_server_actor& link) { attach(link); },
    [this](detach_atom) { detach(); },
    [](ping_atom) {},
    [this](stop_atom, const run_end& how) { leave(how); },
  };
}

void evaluator_state::attach(const parameter_server_actor& link) {
  detach();
  link_ = link;
  watch();
}

// A server that returns may have rolled back, so that versions repeat.
void evaluator_state::detach() {
  ++attachments_;
  link_.reset();
  seen_ = version{0};
}

void evaluator_state::leave(const run_end& how) {
  detach();
  self_->send(parts_.session, ended_atom_v, how);
  self_->send_exit(parts_.scorer, caf::exit_reason::user_shutdown);
  self_->quit();
}

void evaluator_state::watch() {
  self_->request(*link_, caf::infinite, watch_atom_v, seen_)
    .then(
      [this, asked = attachments_](const watch_header& what,
                                   const payload& weights) {
        if (asked == attachments_)
          evaluate(what, weights);
      },
      [this, asked = attachments_](const caf::error& why) {
        if (asked == attachments_)
          take_refusal(why);
      });
}

// When the link breaks, or the run is over, another message tells so. After any
// other error this link is useless.
void evaluator_state::take_refusal(const caf::error& why) {
  if (why == errc::peer_lost || why == errc::shutting_down)
    return;
  if (++unknown_ < most_unknown)
    self_->send(parts_.session, connect_atom_v);
  else
    leave({1, "the parameter server does not work with this evaluator: " +
                text_of(why)});
}

void evaluator_state::evaluate(const watch_header& what,
                               const payload& weights) {
  seen_ = what.weights;
  unknown_ = 0;
  self_
    ->request(parts_.scorer, caf::infinite, evaluate_atom_v, what.weights,
              weights)
    .then(
      [this, asked = attachments_, last = what.last](const score& found) {
        if (asked != attachments_)
          return;
        self_->send(*link_, score_atom_v, found);
        if (!last)
          watch();
      },
      [this](const caf::error& why) {
        leave({1, text_of(why)});
      });
}

} // namespace troupe
