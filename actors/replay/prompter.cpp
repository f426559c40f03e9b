#include "actors/replay/prompter.hpp"

#include "actors/clock/run_clock.hpp"
#include "config/failure.hpp"

#include <ATen/Parallel.h>

#include <algorithm>
#include <exception>
#include <limits>
#include <utility>

namespace troupe::replay {

prompter_state::prompter_state(pointer self, prompter_parts parts)
  : self_(self), parts_(std::move(parts)), start_(self->clock().now()) {
  // nop
}

prompter_actor::behavior_type prompter_state::make_behavior() {
  watch();
  await_next();
  auto nobody = [] {
    return caf::make_error(errc::shutting_down,
                           std::string{"a replay takes nobody in"});
  };
  return {
    // As the coordinator.
    [nobody](register_atom, const registration_request&, const worker_actor&)
      -> caf::result<registration> { return nobody(); },
    [nobody](register_atom, const evaluator_actor&)
      -> caf::result<incarnation> { return nobody(); },
    [](leave_atom, worker_id, incarnation, const std::string&) {
      // That it left is on the tape.
    },
    [](join_atom) {},
    [this](ending_atom) { ending(); },
    [this](ended_atom, const run_end& how) { leave_stage(how); },
    [this](tick_atom) { prompt(); },
    // As a worker.
    [](attach_atom, const parameter_server_actor&, const registration&,
       const gradient_outlet_ptr&) {},
    [](detach_atom) {},
    [](cancel_atom, version) {
      // So is what it did then.
    },
    [](write_atom, version, sequence) {},
    [](ping_atom) {},
    [](stop_atom, const run_end&) {},
  };
}

// -- the tape -----------------------------------------------------------------

// As the evaluators did, so that the server has the weights of each score.
void prompter_state::watch() {
  for (auto what : parts_.tape->scored())
    if (what.value > 0)
      self_
        ->request(parts_.lead, caf::infinite, watch_atom_v,
                  version{what.value - 1})
        .then([](const watch_header&, const payload&) {},
              [](const caf::error&) {
                // The run was over before.
              });
}

// Timers fire when nobody has mail: all that follows from the event before has
// happened by then, also when this one came at the same time.
void prompter_state::await_next() {
  auto at =
    start_ + std::chrono::nanoseconds(parts_.tape->next_time().value_or(0));
  auto wait = std::max(at - self_->clock().now(),
                       caf::actor_clock::duration_type::zero());
  self_->delayed_send(self_, wait, tick_atom_v);
}

void prompter_state::prompt() try {
  if (over_ || parts_.tape->closed())
    return;
  if (!parts_.tape->next_time())
    return end_of_tape();
  parts_.tape->advance();
  act(parts_.tape->current());
  await_next();
} catch (const std::exception& err) {
  fail(err.what());
}

void prompter_state::act(const proto::TapeEvent& event) {
  using proto::TapeEvent;
  switch (event.what_case()) {
  case TapeEvent::kStarted:
    self_->send(parts_.lead, attach_atom_v, coordinator_actor{self_});
    break;
  case TapeEvent::kEnlisted:
    enlist(event.enlisted());
    break;
  case TapeEvent::kJoined:
    join(event.joined());
    break;
  case TapeEvent::kLeft:
    leave(event.left());
    break;
  case TapeEvent::kPulled:
    pull(event.pulled());
    break;
  case TapeEvent::kArrived:
    push(event.arrived());
    break;
  case TapeEvent::kScored:
    report(event.scored());
    break;
  case TapeEvent::kAudience:
    self_->send(parts_.lead, audience_atom_v, event.audience().evaluators());
    break;
  case TapeEvent::kStopped:
    stopped_by_us_ = true;
    self_->send(parts_.lead, stop_atom_v);
    break;
  case TapeEvent::kFailed:
    parts_.say("replay       the run failed here: " + event.failed().line());
    stop_here();
    break;
  case TapeEvent::kEnded:
    throw run_error(
      parts_.tape->line("the run is over on the tape, but not in the replay"));
  default:
    throw run_error(parts_.tape->line("is of a kind that this release does "
                                      "not know"));
  }
}

// -- what is sent -------------------------------------------------------------

void prompter_state::enlist(const proto::TapeEnlisted& what) {
  worker_id who{what.worker()};
  incarnation life{what.life()};
  seats_[who] = seat{life, {}, {}, {}, {}};
  owned_data data{what.samples(), what.data_digest()};
  require_same(who, data);
  self_->send(parts_.lead, enlist_atom_v, who, life, what.transport(), data,
              worker_actor{self_});
}

// Else its gradients would be of other samples.
void prompter_state::require_same(worker_id who, const owned_data& data) const {
  if (data.samples > 0 && (who.value >= parts_.own_data.size() ||
                           parts_.own_data[who.value] != data))
    throw run_error(parts_.tape->line(
      "worker " + to_string(who) + " had " + std::to_string(data.samples) +
      " samples of its own, which are not those of part-" + to_string(who) +
      "; name the folder of the same parts with --data-dir"));
}

void prompter_state::join(const proto::TapeJoined& what) {
  std::vector<worker_id> who;
  for (auto worker : what.workers())
    who.emplace_back(worker);
  self_->send(parts_.lead, join_atom_v, std::move(who));
}

void prompter_state::leave(const proto::TapeLeft& what) {
  seats_.erase(worker_id{what.worker()});
  self_->send(parts_.lead, leave_atom_v, worker_id{what.worker()},
              incarnation{what.life()}, what.reason());
}

void prompter_state::pull(const proto::TapePulled& what) {
  auto& from = seat_of(what.worker(), what.life());
  from.work.erase(lease_id{what.abandoned()});
  pull_header header;
  header.worker = worker_id{what.worker()};
  header.life = from.life;
  header.server = incarnation{parts_.tape->begin().life()};
  header.abandoned = lease_id{what.abandoned()};
  await_weights(header.worker, self_->request(parts_.lead, caf::infinite,
                                              pull_atom_v, header));
}

void prompter_state::push(const proto::TapeArrived& what) {
  push_header header;
  header.id = {worker_id{what.worker()}, incarnation{what.life()},
               sequence{what.sequence()}};
  header.server = incarnation{parts_.tape->begin().life()};
  header.computed_on = version{what.computed_on()};
  header.from = lease_id{what.lease().id()};
  header.samples = what.lease().count();
  header.loss = what.loss();
  header.compute_seconds = what.compute_seconds();
  header.wait_seconds = what.wait_seconds();
  header.data_seconds = what.data_seconds();
  header.skipped = what.skipped();
  auto gradient = what.refused().empty() ? gradient_of(what, header.loss)
                                         : unusable(what.refused());
  seat_of(what.worker(), what.life()).work.erase(header.from);
  await_weights(header.id.worker,
                self_->request(parts_.lead, caf::infinite, push_atom_v, header,
                               std::move(gradient)));
}

void prompter_state::report(const proto::TapeScored& what) {
  score found;
  found.weights = version{what.version()};
  found.loss = what.loss();
  found.accuracy = what.accuracy();
  found.samples = what.samples();
  found.seconds = what.seconds();
  found.accuracy_top5 = what.has_accuracy_top5()
                          ? what.accuracy_top5()
                          : std::numeric_limits<double>::quiet_NaN();
  self_->send(parts_.lead, score_atom_v, found);
}

// -- gradients ----------------------------------------------------------------

payload prompter_state::gradient_of(const proto::TapeArrived& what,
                                    real& loss) {
  auto& from = seat_of(what.worker(), what.life());
  auto found = from.work.find(lease_id{what.lease().id()});
  if (found == from.work.end())
    throw run_error(parts_.tape->line(
      "a gradient of lease " + std::to_string(what.lease().id()) +
      ", which worker " + std::to_string(what.worker()) +
      " does not have in the replay"));
  if (!from.reads || from.reads->value != what.computed_on())
    throw run_error(parts_.tape->line(
      "a gradient computed on version " + std::to_string(what.computed_on()) +
      ", but worker " + std::to_string(what.worker()) + " was given " +
      (from.reads ? "version " + to_string(*from.reads) : "no weights")));
  if (!parts_.network)
    return {};
  at::set_num_threads(parts_.threads);
  auto report =
    parts_.network->compute(found->second, from.weights, from.statistics);
  at::set_num_threads(1); // The server's.
  compare_losses(loss, report.loss);
  loss = report.loss;
  from.statistics = report.statistics;
  return report.gradient;
}

// When it may differ the run goes on with the loss of the tape.
void prompter_state::compare_losses(real on_tape, real& found) {
  if (same_bits(on_tape, found) || parts_.strict)
    return;
  if (!losses_differ_)
    parts_.say("replay       " +
               parts_.tape->line("its gradient is not bit-equal to the run's "
                                 "(the loss differs); neither are the weights "
                                 "from here on"));
  losses_differ_ = true;
  found = on_tape;
}

/// A gradient that is refused for the same reason.
payload prompter_state::unusable(const std::string& why) const {
  if (why == to_string(errc::wrong_size)) {
    auto shape = parts_.weights;
    ++shape.count;
    payload_buffer memory{shape};
    std::ranges::fill(memory.bytes(), std::byte{0});
    return std::move(memory).seal();
  }
  payload_buffer memory{parts_.weights};
  std::ranges::fill(memory.bytes(), std::byte{0xff}); // NaN in either type.
  return std::move(memory).seal();
}

auto prompter_state::seat_of(uint32_t worker, uint32_t life) -> seat& {
  auto found = seats_.find(worker_id{worker});
  if (found == seats_.end() || found->second.life.value != life)
    throw run_error(parts_.tape->line("worker " + std::to_string(worker) +
                                      " (life " + std::to_string(life) +
                                      ") is not in the cast"));
  return found->second;
}

template <class Request>
void prompter_state::await_weights(worker_id who, Request request) {
  auto life = seats_.at(who).life;
  request.then(
    [this, who, life](const release_header& header, const payload& weights) {
      take_weights(who, life, header, weights);
    },
    [this](const caf::error& why) {
      parts_.tape->last_refusal = text_of(why);
    });
}

void prompter_state::take_weights(worker_id who, incarnation life,
                                  const release_header& header,
                                  const payload& weights) {
  auto found = seats_.find(who);
  if (found == seats_.end() || found->second.life != life)
    return;
  if (!*parts_.began)
    *parts_.began = self_->clock().now();
  found->second.reads = header.weights;
  found->second.weights = weights;
  for (const auto& work : header.leases)
    found->second.work[work.id] = work;
}

// -- the end ------------------------------------------------------------------

// The server was killed here: what it knew is saved.
void prompter_state::end_of_tape() {
  auto last = std::to_string(parts_.tape->current().number());
  parts_.say("replay       the tape ends after event " + last +
             (parts_.tape->torn() ? ", the next one is torn" : "") +
             ": the server was killed");
  stop_here();
}

void prompter_state::stop_here() {
  parts_.tape->close();
  stopped_by_us_ = true;
  self_->send(parts_.lead, stop_atom_v);
  self_->send(parts_.lead, audience_atom_v, uint32_t{0});
}

void prompter_state::fail(const std::string& line) {
  parts_.tape->close();
  self_->send(parts_.lead, refuse_atom_v, line);
}

// Nobody will score the last version when the end is not that of the tape.
void prompter_state::ending() {
  if (parts_.tape->closed())
    self_->send(parts_.lead, audience_atom_v, uint32_t{0});
}

void prompter_state::leave_stage(run_end how) {
  over_ = true;
  if (how.status == static_cast<uint8_t>(exit_status::try_again) &&
      stopped_by_us_)
    how.status = static_cast<uint8_t>(exit_status::done);
  if (!how.failed() && parts_.tape->end_checked())
    parts_.say("replay       " +
               std::to_string(parts_.tape->current().number()) +
               " events, all as on the tape");
  else if (!how.failed() && parts_.tape->stopped_early())
    parts_.say("replay       stopped at event " +
               std::to_string(parts_.tape->current().number()) +
               "; all as on the tape so far");
  self_->send(parts_.supervisor, ended_atom_v, how);
  self_->quit();
}

} // namespace troupe::replay
