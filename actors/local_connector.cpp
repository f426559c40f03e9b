#include "actors/connector.hpp"
#include "actors/links/local_link.hpp"

#include <exception>
#include <utility>

namespace troupe {

local_connector_state::local_connector_state(pointer self,
                                             local_connector_parts parts)
  : self_(self), parts_(std::move(parts)) {
  // nop
}

connector_actor::behavior_type local_connector_state::make_behavior() {
  auto& system = self_->system();
  link_ = parts_.terms
            ? spawn_simulated_link(system, parts_.lead, *parts_.terms)
            : spawn_local_link(system, parts_.lead);
  try {
    performer_ = parts_.make(connector_actor{self_});
    connect();
  } catch (const std::exception& err) {
    self_->send(parts_.lead, refuse_atom_v, std::string{err.what()});
  }
  return {
    [this](connect_atom) { connect(); },
    [](tick_atom) {},
    [this](ended_atom, const run_end& how) {
      // What one performer in this process met, the others meet too.
      if (how.failed())
        self_->send(parts_.lead, refuse_atom_v, how.line);
      self_->quit();
    },
  };
}

void local_connector_state::connect() {
  if (auto* evaluator = std::get_if<evaluator_actor>(&performer_)) {
    self_
      ->request(parts_.coordinator, caf::infinite, register_atom_v, *evaluator)
      .then([this, who = *evaluator](
              incarnation) { self_->send(who, attach_atom_v, link_); },
            [](const caf::error&) {
              // The run is over: the coordinator says so to the evaluator.
            });
    return;
  }
  auto worker = std::get<worker_actor>(performer_);
  self_
    ->request(parts_.coordinator, caf::infinite, register_atom_v,
              registration_request{parts_.rank.has_value(),
                                   parts_.rank.value_or(worker_id{0}),
                                   parts_.terms ? "simulated" : "inproc"},
              worker)
    .then(
      [this, worker](const registration& as) {
        self_->send(worker, attach_atom_v, link_, as);
      },
      [](const caf::error&) {
        // The run is over: the coordinator says so to the worker.
      });
}

} // namespace troupe
