#include "actors/server/parameter_server.hpp"

#include "actors/runtime/run_is_over.hpp"
#include "actors/server/restore.hpp"
#include "config/report/report.hpp"
#include "config/runs/policy_change.hpp"
#include "config/schema/policies.hpp"
#include "config/text/failure.hpp"

#include <ATen/Parallel.h>

#include <algorithm>
#include <memory>
#include <utility>

namespace troupe {

lead_actor::behavior_type parameter_server_state::make_behavior() {
  at::set_num_threads(1); // Shards and lanes are threads of their own.
  return {
    [this](push_atom, const push_header& header, const payload& gradient) {
      return requests_.push(header, gradient);
    },
    [this](pull_atom, const pull_header& header) {
      return requests_.pull(header);
    },
    [this](watch_atom, const watch_request& request) {
      return feed_.watch(request);
    },
    [this](score_atom, const score& found) {
      in_order([this, found] { take_score(found); });
    },
    [this](coordinator_atom, const coordinator_actor& coordinator) {
      begin(coordinator);
    },
    [this](shards_atom, const shard_registrar_actor& registrar,
           const std::vector<remote_shard_actor>& shards) {
      shards_.begin(registrar, shards);
    },
    [this](report_atom, const part_report& report) {
      in_order([this, report] { shards_.note(report); });
    },
    [this](enlist_atom, worker_id who, life_number life,
           const registration_request& wish,
           const worker_actor& handle) -> caf::result<void> {
      auto asks = self_->make_response_promise<void>();
      in_order([this, asks, handle,
                what = inputs::enlisted{who, life, wish.transport, wish.data,
                                        wish.leases, wish.device}]() mutable {
        if (ending_.has_failed()) // The worker's place is in the next life.
          return asks.deliver(life_is_over());
        enlist(what, handle);
        asks.deliver();
      });
      return asks;
    },
    [this](join_atom, const std::vector<worker_id>& who) {
      in_order([this, who] { join(who); });
    },
    [this](leave_atom, worker_id who, life_number life,
           const std::string& reason) {
      in_order([this, who, life, reason] { leave(who, life, reason); });
    },
    [this](evaluators_atom, uint32_t evaluators) {
      in_order([this, evaluators] { set_evaluators(evaluators); });
    },
    [this](refuse_atom, const std::string& line) { fail_for_others(line); },
    [this](ended_atom, const run_end& how) { regroup(how); },
    [this](fetch_atom) { last_is_wanted_ = true; },
    [this](tick_atom) { ending_.scored(); },
    [this](tick_atom, worker_id who, life_number life) {
      pass_deadline(who, life);
    },
    [this](tick_atom, version at) { pass_window(at); },
    [this](policy_atom, const std::string& text) {
      return change_policy(text);
    },
    [this](stop_atom) { stop(); },
  };
}

// -- inputs -------------------------------------------------------------------

// Until the steps of a decision are made, weights and counts belong to
// different versions: nothing may be decided, saved or ended in between.
template <class Input>
void parameter_server_state::in_order(Input input) {
  if (pipeline_.is_open())
    waiting_.push_back(std::move(input));
  else
    input();
}

void parameter_server_state::go_on() {
  while (!waiting_.empty() && !pipeline_.is_open()) {
    auto next = std::move(waiting_.front());
    waiting_.pop_front();
    next();
  }
  requests_.go_on();
}

void parameter_server_state::begin(const coordinator_actor& coordinator) {
  coordinator_ = coordinator;
  // A resumed run may have reached its limits already.
  cores::orders decided;
  decided.stop = scheduler_.reached();
  decide(inputs::started{parts_.life(), parts_.from.resumed
                                          ? &parts_.from.resumed->manifest
                                          : nullptr},
         std::move(decided));
  if (!parts_.began) // In real time.
    look_for_standstill();
  if (turns_)
    look_at_turns();
}

void parameter_server_state::look_for_standstill() {
  if (ending_.begun())
    return;
  metrics_->note_standstill();
  self_->run_delayed(std::chrono::seconds{1},
                     [this] { look_for_standstill(); });
}

void parameter_server_state::look_at_turns() {
  if (ending_.begun())
    return;
  auto listens = !requests_.must_wait();
  for (const auto& one : turns_->look(self_->clock().now(), listens))
    self_->send(coordinator_, detach_atom_v, one.who, one.life, one.reason);
  for (auto who : scheduler_.awaited())
    if (turns_->is_late(who))
      pass_deadline(who, scheduler_.life_of(who));
  if (parts_.settings.training.local_steps.most > 0)
    for (auto who : turns_->silent())
      requests_.ask_steps(who, [this, who](life_number life, uint64_t steps) {
        turns_->note_steps(who, life, steps, self_->clock().now());
      });
  self_->run_delayed(to_timespan(turns_->interval()),
                     [this] { look_at_turns(); });
}

void parameter_server_state::pass_deadline(worker_id who, life_number life) {
  in_order([this, who, life] {
    if (!ending_.begun() && scheduler_.knows(who, life))
      decide(inputs::deadline_passed{who, life},
             scheduler_.deal_again(who, life));
  });
}

void parameter_server_state::pass_window(version at) {
  in_order([this, at] {
    if (!ending_.begun() && scheduler_.awaits_window(at))
      decide(inputs::window_over{at}, scheduler_.window_over(at));
  });
}

caf::result<version>
parameter_server_state::change_policy(const std::string& text) {
  auto asks = self_->make_response_promise<version>();
  in_order([this, asks, text]() mutable {
    try {
      follow(text);
      changing_.push_back(asks);
    } catch (const usage_error& why) {
      asks.deliver(caf::make_error(errc::settings_conflict, one_line(why)));
    } catch (const failure& why) {
      asks.deliver(caf::make_error(errc::failed, "policy " + text + ": " +
                                                   std::string{why.what()}));
    }
  });
  return asks;
}

// A replay saves at other times than the run did.
void parameter_server_state::follow(const std::string& text) {
  auto next = config::with_policy(parts_.settings, text);
  if (parts_.exchange && !config::facts_of(next.policy).summable)
    throw usage_error("policy " + text +
                      ": the GPUs of this run add up the gradients of all "
                      "workers, as only sync does; start it with "
                      "--device cpu, or --transport tcp, for other policies");
  if (ending_.begun())
    throw run_error("the run is ending");
  if (scheduler_.is_paused())
    throw run_error("the run pauses until there are enough workers: try "
                    "again when it goes on");
  if (parts_.keeps_time && !checkpoints_.is_idle())
    throw run_error("a checkpoint is being written: try again in a moment");
  auto decided = scheduler_.follow(
    policies::make_policy(make_policy_spec(next, parts_.rules)));
  auto momentum = next.training.momentum;
  if (momentum != parts_.settings.training.momentum)
    pipeline_.set_momentum(momentum);
  config::take_change(parts_.settings, parts_.description, std::move(next),
                      scheduler_.current().value);
  decide(inputs::policy_changed{config::call_of(parts_.settings.policy)},
         std::move(decided));
  auto out = std::make_shared<snapshot>();
  describe(*out);
  out->settings = config::to_ini(parts_.settings, parts_.description.changes);
  checkpoints_.write_settings(std::move(out));
}

namespace {

/// The leases of a push for the log. Of a lease that the worker does not have,
/// only the number is known.
std::vector<lease> leases_for_log(const arrived_push& push) {
  if (push.from && !push.from->empty())
    return *push.from;
  return {{push.header.from, 0, 0, push.header.samples}};
}

/// What to do about a worker whose gradients were refused for this reason.
std::string remedy_for(errc why, const config::training_settings& settings) {
  if (why == errc::outlier)
    return "look at its data and its machine, or give --outliers a larger "
           "factor";
  return std::string{"if the loss grew before, lower "} +
         (settings.local_steps.most > 0
            ? "the learning rate of the workers' own optimizer"
            : "--lr");
}

cores::push_facts in_short(const push_header& header) {
  return {header.id, header.computed_on, header.leases(), header.samples,
          header.compute_seconds + header.data_seconds};
}

} // namespace

void parameter_server_state::push_arrived(const arrived_push& push) {
  pipeline_.hold(push.header, push.gradient, push.fragment);
  decide(inputs::arrived{push.header,
                         leases_for_log(push),
                         errc::none,
                         {},
                         bytes_of(push),
                         push.norm},
         scheduler_.push(in_short(push.header)));
}

// Whoever takes gradients from their path has unpacked them.
uint64_t parameter_server_state::bytes_of(const arrived_push& push) const {
  return codec_ ? codec_->of(push.fragment).compressed().bytes()
                : push.gradient.shape().bytes();
}

void parameter_server_state::pull_arrived(const pull_header& header) {
  decide(inputs::pulled{header},
         scheduler_.pull(header.worker, header.leases()));
}

void parameter_server_state::push_refused(const arrived_push& push, errc why,
                                          const std::string& reason) {
  const auto& id = push.header.id;
  decide(inputs::arrived{push.header, leases_for_log(push), why, reason, 0,
                         push.norm});
  auto facts = in_short(push.header);
  auto too_many = why == errc::outlier ? scheduler_.refuse_outlier(facts)
                                       : scheduler_.refuse(facts);
  if (too_many)
    expel(id.worker, id.life,
          "(" + reason + "); " + remedy_for(why, parts_.settings.training));
}

void parameter_server_state::enlist(inputs::enlisted cause,
                                    const worker_actor& handle) {
  scheduler_.enlist(cause.who, cause.life, cause.data, cause.leases);
  requests_.enlist(cause.who, cause.life, handle);
  transports_["worker-" + to_string(cause.who)] = cause.transport;
  if (parts_.peers && handle)
    parts_.peers->seated(cause.who, handle.node());
  decide(std::move(cause));
}

void parameter_server_state::join(const std::vector<worker_id>& who) {
  constexpr double for_others = 0.5; // s; they may come together.
  if (ending_.begun())
    return;
  decide(inputs::joined{who}, scheduler_.join(who));
  for (auto one : who)
    next_.joined(one);
  if (next_.has_joiners() && parts_.settings.cluster.reshard_on_join)
    self_->run_delayed(to_timespan(for_others),
                       [this] { in_order([this] { deal_anew(); }); });
}

void parameter_server_state::leave(worker_id who, life_number life,
                                   const std::string& reason) {
  next_.left(who);
  if (!scheduler_.knows(who, life) || !requests_.has(who)) {
    // It had given up its place before, and is not back in another life. This
    // changes no decision.
    if (!ending_.begun() && !requests_.has(who) &&
        recording::is_failure(reason))
      metrics_->note_left(who, life, reason);
    return;
  }
  requests_.leave(who);
  shards_.leave(who, life);
  if (ending_.begun()) // No more steps: the weights stay as they are.
    return requests_.answer_left(reason);
  auto decided = scheduler_.leave(who, life);
  auto at = tell(inputs::left{who, life, reason}, std::move(decided));
  requests_.answer_left(reason);
  carry_out(at);
}

void parameter_server_state::take_score(const score& found) {
  feed_.scored(found.weights);
  cores::orders decided;
  if (!ending_.begun())
    decided.stop = scheduler_.scored(found.metrics);
  auto at = tell(inputs::scored{found}, std::move(decided));
  keep_if_best(found); // The run ends only after that is written.
  if (ending_.begun() && !feed_.last_open())
    ending_.scored();
  carry_out(at);
}

void parameter_server_state::set_evaluators(uint32_t evaluators) {
  decide(inputs::evaluators{evaluators});
  feed_.set_evaluators(evaluators);
  if (ending_.begun() && evaluators == 0)
    ending_.scored();
}

void parameter_server_state::stop() {
  told_to_stop_ = true;
  next_.clear();
  keep_to_grace();
  in_order([this] {
    if (ending_.begun())
      return;
    decide(inputs::stopped{});
    ending_.begin("stopped", "stopped by a signal");
  });
}

// From now on the end has so much time. It may have begun before: then it waits
// for the score no longer than that.
void parameter_server_state::keep_to_grace() {
  if (end_by_)
    return;
  auto grace = parts_.settings.cluster.grace;
  auto kept = std::min(kept_of_grace, grace / 2);
  end_by_ = elapsed() + grace;
  self_->run_delayed(to_timespan(grace - kept), [this] { ending_.scored(); });
  self_->run_delayed(to_timespan(grace - kept / 2),
                     [this, grace] { saving_takes_too_long(grace); });
}

// Shards are lost, whose part of a step would be waited for in vain, or all
// workers are. A run that was told to stop does not go on, nor does a server
// that nobody would find at its next port.
void parameter_server_state::regroup(const run_end& how) {
  if (how.next.empty())
    return in_order([this, line = how.line] { give_up(line); });
  if (how.without_nccl)
    next_.do_without_nccl();
  auto goes_on = !ending_.is_closed() && !told_to_stop_;
  if (goes_on && !outlived_by_nodes(parts_.settings))
    next_.lost_all_but(how.next, how.line);
  else if (goes_on && parts_.settings.cluster.port > 0)
    next_.begin_anew(how.line);
  fail_for_others(next_.all().empty() ? how.line : next_.line());
}

void parameter_server_state::give_up(const std::string& line) {
  if (ending_.begun())
    return;
  decide(inputs::stopped{});
  ending_.give_up(line);
}

// The last version is scored in the next life.
void parameter_server_state::deal_anew() {
  if (ending_.begun() || !next_.has_joiners())
    return;
  next_.deal_anew();
  decide(inputs::stopped{});
  ending_.begin("stopped", next_.line());
  ending_.scored();
}

// The recorder or the checkpoint writer could not write: handled like any other
// input.
void parameter_server_state::fail_for_others(const std::string& line) {
  if (!ending_.is_closed())
    tell(inputs::failed{line}, {}); // Also in a step: nothing is carried out.
  ending_.fail(line);
}

// -- decisions ----------------------------------------------------------------

void parameter_server_state::decide(input&& cause, cores::orders&& decided) {
  carry_out(tell(std::move(cause), std::move(decided)));
}

event parameter_server_state::tell(input&& cause, cores::orders&& decided) {
  event at{0,  self_->clock().now(), std::move(cause), std::move(decided),
           {}, scheduler_.current()};
  try {
    // Finding out how far the data has come takes a walk over all parts, so it
    // is done for steps only.
    if (!at.decided.updates.empty())
      at.rates = pipeline_.rates_of(at.decided.updates, metrics_->epochs(),
                                    scheduler_.ledger().samples());
    events_.emit(at);
  } catch (const std::exception& err) {
    // A run that should write a log and cannot has failed.
    ending_.fail(one_line(err));
    ending_.fail_late(one_line(err));
  }
  return at;
}

void parameter_server_state::carry_out(const event& at) {
  if (ending_.begun())
    return;
  if (const auto& window = at.decided.window; window && parts_.keeps_time)
    self_->delayed_send(self_, to_timespan(window->seconds), tick_atom_v,
                        window->at);
  attempt([&] { pipeline_.carry_out(at.decided, at.rates); });
}

void parameter_server_state::attempt(const std::function<void()>& work) {
  try {
    work();
  } catch (const std::exception& err) {
    if (ending_.is_closed()) // Nothing is left that could tell of it.
      throw;
    ending_.fail(one_line(err));
  }
}

void parameter_server_state::attempt_later(const std::function<void()>& work) {
  attempt(work);
  go_on();
}

void parameter_server_state::push_settled(const push_id& id, bool applied) {
  requests_.note_settled(id, applied);
}

void parameter_server_state::versions_made(version before, version made) {
  last_update_ = self_->clock().now();
  newest_ = made;
  auto due = feed_.made(before, made, scheduler_.ledger().epochs_completed());
  if (due && parts_.settings.checkpoint.keep_best == config::best_rule::full)
    checkpoints_.take_checkpoint(); // It may become the best one.
  checkpoints_.made(before, made);
}

release_header
parameter_server_state::header_for(const cores::release_order& ready) const {
  return {scheduler_.current(), parts_.life(), ready.leases,
          ready.dropped,        ready.steps,   ready.turn.pushes,
          ready.turn.goes_on};
}

// The answers of the other shards are on the way while the lead makes its own
// part.
void parameter_server_state::steps_ordered(const cores::orders& decided) {
  if (decided.stop || !shards_.any())
    return;
  for (const auto& ready : decided.release)
    requests_.order_release(ready.worker, header_for(ready));
}

void parameter_server_state::decision_done(const cores::orders& decided) {
  if (decided.stop)
    return ending_.begin("completed", *decided.stop);
  for (const auto& ready : decided.release)
    requests_.release(ready.worker, header_for(ready),
                      model_.released(ready.turn.pushes, ready.turn.goes_on),
                      pipeline_.gathers(scheduler_.current()));
  for (auto who : decided.cancel)
    requests_.cancel(who);
}

void parameter_server_state::expel(worker_id who, life_number life,
                                   const std::string& reason) {
  auto line = "expelled: its last " +
              std::to_string(cores::refusals::default_limit) +
              " gradients were refused " + reason;
  self_->send(coordinator_, leave_atom_v, who, life, line);
  if (scheduler_.members() == 1)
    ending_.fail("no worker is left; the last was " + line);
}

/// Weights that were kept by another metric are not compared.
bool parameter_server_state::is_better_than_kept(const score& found) const {
  const auto& by = metrics_->statistics().best_by();
  auto value = by ? found.value_of(by->name) : std::nullopt;
  auto kept =
    by && best_ ? config::value_of(best_->metrics, by->name) : std::nullopt;
  return value && (!kept || by->is_better(*value, *kept));
}

void parameter_server_state::keep_if_best(const score& found) {
  auto [weights, average] = feed_.take_shown(found.weights);
  const auto& by = metrics_->statistics().best_by();
  if (average && by && config::is_of_average(by->name))
    weights = std::move(average);
  if (!weights || metrics_->statistics().best_step() != found.weights.value ||
      !is_better_than_kept(found) || ending_.is_closed() ||
      ending_.has_failed())
    return;
  auto what = std::make_shared<snapshot>();
  what->manifest.set_run_id(parts_.description.run_id);
  what->layout = model_.layout();
  what->frozen = parts_.from.frozen;
  what->weights = std::move(weights);
  what->best = found;
  ending_.saving();
  checkpoints_.write_best(std::move(what));
}

} // namespace troupe
