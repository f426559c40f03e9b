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
    [this](stop_atom, const run_end& how) { stop(how); },
  };
}

void evaluator_state::attach(const parameter_server_actor& link) {
  detach();
  if (stopped_)
    return;
  link_ = link;
  watch();
}

// A server that returns may have rolled back, so that versions repeat.
void evaluator_state::detach() {
  ++attachments_;
  link_.reset();
  seen_ = version{0};
}

// The evaluator keeps its place until it has the weights that the run ends
// with.
void evaluator_state::stop(const run_end& how) {
  if (std::exchange(stopped_, true))
    return;
  detach();
  hand_over_last(self_, parts_.last, parts_.session, how,
                 [this](const run_end& told) { leave(told); });
}

void evaluator_state::leave(const run_end& how) {
  detach();
  self_->send(parts_.session, ended_atom_v, how);
  self_->send_exit(parts_.scorer, caf::exit_reason::user_shutdown);
  self_->quit();
}

void evaluator_state::watch() {
  self_->request(*link_, caf::infinite, watch_atom_v, watch_request{seen_})
    .then(
      [this, asked = attachments_](const watch_header& header,
                                   const payload& weights) {
        if (asked == attachments_)
          evaluate(header, weights);
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
    leave({1, "the parameter server refuses all requests of this evaluator: " +
                text_of(why)});
}

void evaluator_state::evaluate(const watch_header& header,
                               const payload& weights) {
  seen_ = header.weights;
  unknown_ = 0;
  score_weights(header.weights, weights, false,
                [this, header](const score& found) {
                  if (header.averaged)
                    ask_for_average(header, found);
                  else
                    report(header, found);
                });
}

/// @param then Called with the score, unless the link has changed meanwhile.
void evaluator_state::score_weights(version number, const payload& weights,
                                    bool of_average,
                                    std::function<void(const score&)> then) {
  self_
    ->request(parts_.scorer, caf::infinite, evaluate_atom_v, number, weights,
              of_average)
    .then(
      [this, asked = attachments_, then = std::move(then)](const score& found) {
        if (asked == attachments_)
          then(found);
      },
      [this](const caf::error& why) {
        leave({1, text_of(why)});
      });
}

// A server that does not keep the average any more gets a score without it.
void evaluator_state::ask_for_average(const watch_header& header,
                                      const score& found) {
  self_
    ->request(*link_, caf::infinite, watch_atom_v,
              watch_request{header.weights, true})
    .then(
      [this, asked = attachments_, header, found](const watch_header&,
                                                  const payload& average) {
        if (asked != attachments_)
          return;
        score_weights(header.weights, average, true,
                      [this, header, found](const score& of_average) {
                        report(header, with_average(found, of_average));
                      });
      },
      [this, asked = attachments_, header, found](const caf::error& why) {
        if (asked != attachments_ || why == errc::peer_lost ||
            why == errc::shutting_down)
          return;
        report(header, found);
      });
}

void evaluator_state::report(const watch_header& header, const score& found) {
  self_->send(*link_, score_atom_v, found);
  if (!header.last)
    watch();
}

} // namespace troupe
