#include "apps/lab/replay/replay_driver.hpp"

#include "actors/core/step_scheduler.hpp"
#include "actors/runtime/run_clock.hpp"
#include "actors/runtime/run_is_over.hpp"
#include "config/text/failure.hpp"

#include <algorithm>
#include <exception>
#include <limits>
#include <utility>

namespace troupe::replay {

replay_driver_state::replay_driver_state(pointer self,
                                         replay_driver_parts parts)
  : self_(self), parts_(std::move(parts)), start_(self->clock().now()) {
  // nop
}

replay_driver_actor::behavior_type replay_driver_state::make_behavior() {
  watch();
  await_next();
  auto nobody = [] {
    return caf::make_error(errc::shutting_down,
                           std::string{"a replay takes nobody in"});
  };
  return {
    // Messages to the coordinator.
    [nobody](register_atom, const registration_request&, const worker_actor&)
      -> caf::result<registration> { return nobody(); },
    [nobody](register_atom, const evaluator_actor&)
      -> caf::result<life_number> { return nobody(); },
    [](leave_atom, worker_id, life_number, const std::string&) {
      // The event log says when it left.
    },
    [](detach_atom, const worker_actor&) {},
    [](detach_atom, worker_id, life_number, const std::string&) {
      // nop
    },
    [](join_atom) {},
    [this](ending_atom) { ending(); },
    [this](ended_atom, version number, const std::vector<push_id>& applied,
           const payload& weights) {
      if (parts_.gradients)
        parts_.gradients->finish(number, weights,
                                 std::ranges::count(applied, computed_) > 0);
    },
    [](fetch_atom) -> last_version { return run_is_over(); },
    [](credit_atom) {},
    [this](ended_atom, const run_end& how) { leave_run(how); },
    [this](tick_atom) { prompt(); },
    // Messages to a worker.
    [](attach_atom, const parameter_server_actor&, const registration&,
       const gradient_way&) {},
    [](detach_atom) {},
    [](cancel_atom, version) {
      // The event log says what it did then.
    },
    [](write_atom, version, sequence) {},
    [](leave_atom) { return sequence{0}; },
    [](ping_atom) { return uint64_t{0}; },
    [](report_atom) { return std::string{}; },
    [](stop_atom, const run_end&) {},
  };
}

// -- the event log
// -----------------------------------------------------------------

// Requests versions as the evaluators did, so that the server has the weights
// of each score.
void replay_driver_state::watch() {
  for (auto what : parts_.event_log->scored())
    if (what.value > 0)
      self_
        ->request(parts_.lead, caf::infinite, watch_atom_v,
                  watch_request{version{what.value - 1}})
        .then([](const watch_header&, const payload&) {},
              [](const caf::error&) {
                // The recorded run was over before.
              });
}

// Timers fire when all mailboxes are empty. So all consequences of an event
// have happened before the next one, even if both have the same time.
void replay_driver_state::await_next() {
  auto at = start_ +
            std::chrono::nanoseconds(parts_.event_log->next_time().value_or(0));
  auto wait = std::max(at - self_->clock().now(),
                       caf::actor_clock::duration_type::zero());
  self_->delayed_send(self_, wait, tick_atom_v);
}

void replay_driver_state::prompt() try {
  if (over_ || parts_.event_log->closed())
    return;
  if (!parts_.event_log->next_time())
    return end_of_event_log();
  parts_.event_log->advance();
  act(parts_.event_log->current());
  await_next();
} catch (const std::exception& err) {
  fail(err.what());
}

// Gives the server its coordinator, without which it would never end.
void replay_driver_state::begin() {
  if (!std::exchange(begun_, true))
    self_->send(parts_.lead, coordinator_atom_v, coordinator_actor{self_});
}

void replay_driver_state::act(const proto::LogEvent& event) {
  using proto::LogEvent;
  switch (event.what_case()) {
  case LogEvent::kStarted:
    begin();
    if (parts_.gradients && parts_.gradients->takes_last())
      self_->send(parts_.lead, fetch_atom_v);
    break;
  case LogEvent::kEnlisted:
    enlist(event.enlisted());
    break;
  case LogEvent::kJoined:
    join(event.joined());
    break;
  case LogEvent::kLeft:
    leave(event.left());
    break;
  case LogEvent::kPulled:
    pull(event.pulled());
    break;
  case LogEvent::kArrived:
    push(event.arrived());
    break;
  case LogEvent::kDeadlinePassed:
    self_->send(parts_.lead, tick_atom_v,
                worker_id{event.deadline_passed().worker()},
                life_number{event.deadline_passed().life()});
    break;
  case LogEvent::kWindowOver:
    self_->send(parts_.lead, tick_atom_v,
                version{event.window_over().version()});
    break;
  case LogEvent::kPolicyChanged:
    change_policy(event.policy_changed().policy());
    break;
  case LogEvent::kScored:
    report(event.scored());
    break;
  case LogEvent::kEvaluators:
    self_->send(parts_.lead, evaluators_atom_v, event.evaluators().count());
    break;
  case LogEvent::kStopped:
    stopped_by_us_ = true;
    self_->send(parts_.lead, stop_atom_v);
    break;
  case LogEvent::kFailed:
    parts_.say("replay       the run failed here: " + event.failed().line());
    stop_here();
    break;
  case LogEvent::kEnded:
    throw run_error(parts_.event_log->line(
      "the run is over in the event log, but not in the replay"));
  default:
    throw run_error(
      parts_.event_log->line("is of a kind that this release does "
                             "not know"));
  }
}

// -- replayed events ----------------------------------------------------------

void replay_driver_state::enlist(const proto::LogEnlisted& record) {
  worker_id who{record.worker()};
  life_number life{record.life()};
  seats_[who] = seat{};
  seats_[who].life = life;
  registration_request wish;
  wish.transport = record.transport();
  wish.data = {record.samples(), record.data_digest()};
  if (record.leases() > 0)
    wish.leases = record.leases();
  wish.device = record.device();
  require_same(who, wish.data);
  allow_rounding(who, wish.device);
  self_->send(parts_.lead, enlist_atom_v, who, life, wish, worker_actor{self_});
}

// A GPU rounds its sums otherwise than the CPU.
void replay_driver_state::allow_rounding(worker_id who,
                                         const std::string& device) {
  if (device.empty() || parts_.event_log->allows_other_weights())
    return;
  parts_.event_log->allow_other_weights();
  parts_.say("replay       the weights may differ from the run's in their last "
             "bits: worker " +
             to_string(who) + " computed on " + device +
             ", a replay does on the CPU");
}

// Throws if a worker's own samples are not those of the run: its gradients
// would be computed from other samples.
void replay_driver_state::require_same(worker_id who,
                                       const owned_data& data) const {
  if (data.samples > 0 && (who.value >= parts_.own_data.size() ||
                           parts_.own_data[who.value] != data))
    throw run_error(parts_.event_log->line(
      "worker " + to_string(who) + " had " + std::to_string(data.samples) +
      " samples of its own, which are not those of part-" + to_string(who) +
      "; name the folder of the same parts with --data-dir"));
}

void replay_driver_state::join(const proto::LogJoined& record) {
  std::vector<worker_id> who;
  for (auto worker : record.workers())
    who.emplace_back(worker);
  self_->send(parts_.lead, join_atom_v, std::move(who));
}

void replay_driver_state::leave(const proto::LogLeft& record) {
  seats_.erase(worker_id{record.worker()});
  self_->send(parts_.lead, leave_atom_v, worker_id{record.worker()},
              life_number{record.life()}, record.reason());
}

void replay_driver_state::pull(const proto::LogPulled& record) {
  auto& from = seat_of(record.worker(), record.life());
  pull_header header;
  header.worker = worker_id{record.worker()};
  header.life = from.life;
  header.server = life_number{parts_.event_log->begin().life()};
  header.abandoned = lease_id{record.abandoned()};
  for (auto id : record.also())
    header.also.emplace_back(id);
  for (auto id : header.leases())
    from.work.erase(id);
  await_weights(header.worker, self_->request(parts_.lead, caf::infinite,
                                              pull_atom_v, header));
}

void replay_driver_state::push(const proto::LogArrived& record) {
  push_header header;
  header.id = {worker_id{record.worker()}, life_number{record.life()},
               sequence{record.sequence()}};
  header.server = life_number{parts_.event_log->begin().life()};
  header.computed_on = version{record.computed_on()};
  header.from = lease_id{record.lease().id()};
  header.samples = record.lease().count();
  header.loss = record.loss();
  header.compute_seconds = record.compute_seconds();
  header.wait_seconds = record.wait_seconds();
  header.data_seconds = record.data_seconds();
  header.idle_seconds = record.idle_seconds();
  header.skipped = record.skipped();
  header.inner_steps = record.inner_steps();
  header.early_steps = record.early_steps();
  for (const auto& more : record.also()) {
    header.also.emplace_back(more.id());
    header.samples += more.count();
  }
  for (const auto& one : record.metrics())
    header.metrics.push_back({one.name(), one.value()});
  auto gradient =
    record.refused().empty()
      ? gradient_of(record, header.loss)
      : unusable(record.refused(),
                 seat_of(record.worker(), record.life()).fragment);
  for (auto id : header.leases())
    seat_of(record.worker(), record.life()).work.erase(id);
  await_weights(header.id.worker,
                self_->request(parts_.lead, caf::infinite, push_atom_v, header,
                               std::move(gradient)));
}

void replay_driver_state::change_policy(const std::string& policy) {
  self_->request(parts_.lead, caf::infinite, policy_atom_v, policy)
    .then([](version) {},
          [this](const caf::error& why) { fail(text_of(why)); });
}

void replay_driver_state::report(const proto::LogScored& record) {
  score found;
  found.weights = version{record.version()};
  for (const auto& one : record.metrics())
    found.metrics.push_back({one.name(), one.value()});
  found.samples = record.samples();
  found.seconds = record.seconds();
  self_->send(parts_.lead, score_atom_v, found);
}

// -- gradients ----------------------------------------------------------------

payload replay_driver_state::gradient_of(const proto::LogArrived& record,
                                         real& loss) {
  auto& from = seat_of(record.worker(), record.life());
  auto leases = leases_of(record, from);
  if (!from.reads || from.reads->value != record.computed_on())
    throw run_error(parts_.event_log->line(
      "a gradient computed on version " + std::to_string(record.computed_on()) +
      ", but worker " + std::to_string(record.worker()) + " was given " +
      (from.reads ? "version " + to_string(*from.reads) : "no weights")));
  if (!parts_.gradients)
    return {};
  auto report = parts_.gradients->compute(
    {leases, worker_id{record.worker()}, record.inner_steps(),
     record.early_steps(), *from.reads, from.dropped, from.weights,
     from.statistics, from.fragment, from.goes_on});
  computed_ = {worker_id{record.worker()}, life_number{record.life()},
               sequence{record.sequence()}};
  compare_losses(loss, report.loss);
  loss = report.loss;
  from.statistics = report.statistics;
  return report.gradient;
}

std::vector<lease>
replay_driver_state::leases_of(const proto::LogArrived& record,
                               seat& from) const {
  std::vector<lease> out;
  auto add = [&](const proto::LogLease& one) {
    auto found = from.work.find(lease_id{one.id()});
    if (found == from.work.end())
      throw run_error(parts_.event_log->line(
        "a gradient of lease " + std::to_string(one.id()) + ", which worker " +
        std::to_string(record.worker()) + " does not have in the replay"));
    out.push_back(found->second);
  };
  add(record.lease());
  for (const auto& more : record.also())
    add(more);
  return out;
}

// Where losses may differ, the replay continues with the recorded one.
void replay_driver_state::compare_losses(real in_event_log, real& found) {
  if (same_bits(in_event_log, found) || parts_.strict)
    return;
  if (!losses_differ_)
    parts_.say(
      "replay       " +
      parts_.event_log->line("its gradient is not bit-equal to the run's "
                             "(the loss differs); neither are the weights "
                             "from here on"));
  losses_differ_ = true;
  found = in_event_log;
}

/// Makes a gradient that is refused for the same reason.
payload replay_driver_state::unusable(const std::string& why,
                                      uint32_t fragment) const {
  auto shape = parts_.gradients_of.at(fragment);
  if (why == to_string(errc::wrong_size)) {
    ++shape.count;
    payload_buffer memory{shape};
    std::ranges::fill(memory.bytes(), std::byte{0});
    return std::move(memory).seal();
  }
  // The norm of an outlier is in the event log. The other one is NaN.
  auto numbers =
    why == to_string(errc::outlier) ? std::byte{0} : std::byte{0xff};
  payload_buffer memory{shape};
  std::ranges::fill(memory.bytes(), numbers);
  return std::move(memory).seal();
}

auto replay_driver_state::seat_of(uint32_t worker, uint32_t life) -> seat& {
  auto found = seats_.find(worker_id{worker});
  if (found == seats_.end() || found->second.life.value != life)
    throw run_error(parts_.event_log->line("worker " + std::to_string(worker) +
                                           " (life " + std::to_string(life) +
                                           ") is not in the cluster"));
  return found->second;
}

template <class Request>
void replay_driver_state::await_weights(worker_id who, Request request) {
  auto life = seats_.at(who).life;
  request.then(
    [this, who, life](const release_header& header, const payload& weights) {
      take_weights(who, life, header, weights);
    },
    [this](const caf::error& why) {
      parts_.event_log->last_refusal = text_of(why);
    });
}

void replay_driver_state::take_weights(worker_id who, life_number life,
                                       const release_header& header,
                                       const payload& weights) {
  auto found = seats_.find(who);
  if (found == seats_.end() || found->second.life != life)
    return;
  if (!*parts_.began)
    *parts_.began = self_->clock().now();
  found->second.reads = header.weights;
  found->second.dropped = header.dropped;
  found->second.weights = weights;
  found->second.fragment = header.fragment;
  found->second.goes_on = header.goes_on;
  for (const auto& work : header.leases)
    found->second.work[work.id] = work;
}

// -- the end ------------------------------------------------------------------

// The recorded server was killed here. The replayed one stops, which saves what
// it has done.
void replay_driver_state::end_of_event_log() {
  auto last = std::to_string(parts_.event_log->current().number());
  parts_.say("replay       the event log ends after event " + last +
             (parts_.event_log->torn() ? ", the next one is torn" : "") +
             ": the server was killed");
  stop_here();
}

void replay_driver_state::stop_here() {
  parts_.event_log->close();
  begin();
  stopped_by_us_ = true;
  self_->send(parts_.lead, stop_atom_v);
  self_->send(parts_.lead, evaluators_atom_v, uint32_t{0});
}

void replay_driver_state::fail(const std::string& line) {
  parts_.event_log->close();
  begin();
  self_->send(parts_.lead, refuse_atom_v, line);
}

// If the comparison is closed, this end is not the recorded one. No score of
// the last version will come then, so the server must not wait for one.
void replay_driver_state::ending() {
  if (parts_.event_log->closed())
    self_->send(parts_.lead, evaluators_atom_v, uint32_t{0});
}

void replay_driver_state::leave_run(run_end how) {
  over_ = true;
  if (how.status == static_cast<uint8_t>(exit_status::try_again) &&
      stopped_by_us_)
    how.status = static_cast<uint8_t>(exit_status::done);
  if (!how.failed() && parts_.event_log->end_checked())
    parts_.say("replay       " +
               std::to_string(parts_.event_log->current().number()) +
               " events, all as in the event log");
  else if (!how.failed() && parts_.event_log->failure())
    parts_.say("replay       the run failed here: " +
               *parts_.event_log->failure());
  else if (!how.failed() && parts_.event_log->stopped_early())
    parts_.say("replay       stopped at event " +
               std::to_string(parts_.event_log->current().number()) +
               "; all as in the event log so far");
  self_->send(parts_.supervisor, ended_atom_v, how);
  self_->quit();
}

} // namespace troupe::replay
