#include "actors/server/parameter_server.hpp"

#include "actors/runtime/run_is_over.hpp"
#include "actors/runtime/tensor_payload.hpp"
#include "actors/server/restore.hpp"
#include "config/text/failure.hpp"
#include "config/text/value.hpp"

#include <ATen/Parallel.h>

#include <memory>
#include <utility>

namespace troupe {

namespace {

using checkpoint_ptr = std::shared_ptr<const models::loaded_checkpoint>;

/// What is needed of a checkpoint once the model has its numbers.
checkpoint_ptr without_tensors(const checkpoint_ptr& what) {
  if (!what)
    return nullptr;
  models::loaded_checkpoint out;
  out.path = what->path;
  out.manifest = what->manifest;
  return std::make_shared<const models::loaded_checkpoint>(std::move(out));
}

std::shared_ptr<turn_watch> make_turn_watch(const parameter_server_parts& of) {
  if (!of.watches)
    return nullptr;
  return std::make_shared<turn_watch>(of.settings.cluster.hang_timeout);
}

} // namespace

parameter_server_state::parameter_server_state(pointer self,
                                               parameter_server_parts parts)
  : self_(self), parts_(std::move(parts)), model_(make_server_model(parts_)),
    shards_(
      self, parts_.remote_shards,
      [this](const caf::error& why) {
        auto by = why == errc::disk ? "" : "a parameter server shard failed: ";
        fail_for_others(by + text_of(why));
      },
      parts_.settings.cluster.liveness_timeout),
    scheduler_(make_step_scheduler(parts_)), clock_(self), best_(parts_.best),
    next_(parts_.settings.cluster.workers),
    log_(parts_.event_log ? std::make_shared<event_log_writer>(
                              parts_.event_log, self->clock().now())
                          : nullptr),
    metrics_(std::make_shared<run_metrics>(metrics_parts())),
    traffic_(std::make_shared<node_traffic>(bytes_of_nodes(),
                                            parts_.settings.cluster.workers)),
    turns_(make_turn_watch(parts_)), requests_(requests_parts()),
    pipeline_(pipeline_parts()), feed_(feed_parts()),
    checkpoints_(schedule_parts(), parts_.resumed
                                     ? std::optional{scheduler_.current()}
                                     : std::nullopt),
    ending_(ending_calls()) {
  if (parts_.resumed) {
    before_ = metrics_->load(parts_.resumed->manifest.counters());
    clock_ = run_clock{self, before_.elapsed_seconds};
  }
  // The best weights may come from steps that were rolled back.
  if (best_)
    metrics_->load(*best_);
  // The memory of these is as large as the model's and its optimiser's.
  parts_.first.reset();
  parts_.resumed = without_tensors(parts_.resumed);
  events_.subscribe(log_);
  events_.subscribe(metrics_);
  events_.subscribe(traffic_);
  events_.subscribe(turns_);
  events_.subscribe(parts_.observer);
}

lead_actor::behavior_type parameter_server_state::make_behavior() {
  at::set_num_threads(parts_.threads);
  return {
    [this](push_atom, const push_header& header, const payload& gradient) {
      return requests_.push(header, gradient);
    },
    [this](pull_atom, const pull_header& header) {
      return requests_.pull(header);
    },
    [this](watch_atom, const watch_request& what) { return feed_.watch(what); },
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
    [this](report_atom, const part_report& what) {
      in_order([this, what] { shards_.note(what); });
    },
    [this](enlist_atom, worker_id who, incarnation life,
           const std::string& transport, const owned_data& data,
           uint32_t leases, const worker_actor& handle) -> caf::result<void> {
      auto asks = self_->make_response_promise<void>();
      in_order([this, asks, handle,
                what = inputs::enlisted{who, life, transport, data,
                                        leases}]() mutable {
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
    [this](leave_atom, worker_id who, incarnation life,
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
    [this](tick_atom, worker_id who, incarnation life) {
      pass_deadline(who, life);
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
  decide(inputs::started{parts_.life,
                         parts_.resumed ? &parts_.resumed->manifest : nullptr},
         std::move(decided));
  if (parts_.standstill > 0)
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
  self_->run_delayed(to_timespan(turns_->interval()),
                     [this] { look_at_turns(); });
}

void parameter_server_state::pass_deadline(worker_id who, incarnation life) {
  in_order([this, who, life] {
    if (!ending_.begun() && scheduler_.knows(who, life))
      decide(inputs::deadline_passed{who, life},
             scheduler_.deal_again(who, life));
  });
}

void parameter_server_state::take(const push_header& header,
                                  const payload& gradient) {
  pipeline_.hold(header, gradient);
  auto from = leases_of(header);
  decide(
    inputs::arrived{
      header, std::move(from), errc::none, {}, gradient.shape().bytes()},
    scheduler_.push({header.id, header.computed_on, header.leases()}));
}

void parameter_server_state::take(const pull_header& header) {
  decide(inputs::pulled{header},
         scheduler_.pull(header.worker, header.abandoned));
}

void parameter_server_state::refuse(const push_header& header, errc why,
                                    const std::string& reason) {
  decide(inputs::arrived{header, leases_of(header), why, reason});
  if (scheduler_.refuse({header.id, header.computed_on, header.leases()}))
    expel(header.id.worker, header.id.life, reason);
}

void parameter_server_state::enlist(inputs::enlisted what,
                                    const worker_actor& handle) {
  scheduler_.enlist(what.who, what.life, what.data, what.leases);
  requests_.enlist(what.who, what.life, handle);
  transports_["worker-" + to_string(what.who)] = what.transport;
  if (parts_.peers && handle)
    parts_.peers->seated(what.who, handle.node());
  decide(std::move(what));
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

void parameter_server_state::leave(worker_id who, incarnation life,
                                   const std::string& reason) {
  requests_.leave_sums(who, life);
  next_.left(who);
  if (!scheduler_.knows(who, life) || !requests_.has(who))
    return;
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
  in_order([this] {
    if (ending_.begun())
      return;
    decide(inputs::stopped{});
    ending_.begin("stopped", "stopped by a signal");
  });
}

// Shards are lost, whose part of a step would be waited for in vain, or all
// workers. A run that was told to stop does not go on, nor does a server that
// nobody would find at its next port.
void parameter_server_state::regroup(const run_end& how) {
  if (how.next.empty())
    return in_order([this, line = how.line] { give_up(line); });
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
    tell(inputs::failed{line}, {}); // Nothing is carried out, also in a step.
  ending_.fail(line);
}

// -- decisions ----------------------------------------------------------------

void parameter_server_state::decide(input&& what, cores::orders&& decided) {
  carry_out(tell(std::move(what), std::move(decided)));
}

event parameter_server_state::tell(input&& what, cores::orders&& decided) {
  event at{0,  self_->clock().now(), std::move(what), std::move(decided),
           {}, scheduler_.current()};
  try {
    // How far the data has come is a walk over all parts: for steps only.
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
  std::function<void()> when_told;
  if (shards_.any())
    when_told = [this, decided = at.decided] {
      order_answers(decided);
    };
  attempt([&] {
    pipeline_.carry_out(at.decided, at.rates, std::move(when_told),
                        [this, decided = at.decided] { answer(decided); });
  });
}

void parameter_server_state::attempt(const std::function<void()>& what) {
  try {
    what();
  } catch (const std::exception& err) {
    if (ending_.is_closed()) // Nothing is left that could tell of it.
      throw;
    ending_.fail(one_line(err));
  }
}

release_header
parameter_server_state::header_for(const cores::release_order& ready) const {
  return {scheduler_.current(), parts_.life, ready.leases, ready.dropped};
}

// While the lead makes its own part, their answers are on the way.
void parameter_server_state::order_answers(const cores::orders& decided) {
  if (decided.stop)
    return;
  for (const auto& ready : decided.release)
    requests_.order_release(ready.worker, header_for(ready));
}

void parameter_server_state::answer(const cores::orders& decided) {
  if (decided.stop)
    return ending_.begin("completed", *decided.stop);
  for (const auto& ready : decided.release)
    requests_.release(ready.worker, header_for(ready), model_.newest());
  for (auto who : decided.cancel)
    requests_.cancel(who);
}

void parameter_server_state::expel(worker_id who, incarnation life,
                                   const std::string& reason) {
  auto line = "expelled: its last " +
              std::to_string(cores::refusals::default_limit) +
              " gradients were refused (" + reason +
              "); if the loss grew before, lower --lr";
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
  what->manifest.set_run_id(parts_.run_id);
  what->layout = model_.layout();
  what->frozen = parts_.frozen;
  what->weights = std::move(weights);
  what->best = found;
  ending_.saving();
  checkpoints_.write_best(std::move(what));
}

// -- the end ------------------------------------------------------------------

void parameter_server_state::stop_workers(const std::string& reason) {
  tell(inputs::ending{reason}, {});
  requests_.close();
  shards_.finish();
  pipeline_.clear();
  if (!waiting_.empty()) // A failure ended the step that they waited for.
    self_->run_delayed(caf::timespan{0}, [this] { go_on(); });
  if (parts_.modules)
    parts_.modules->end();
  // When a life has failed, the nodes find the next one by themselves.
  if (!ending_.has_failed() || !outlived_by_nodes(parts_.settings))
    self_->send(coordinator_, ending_atom_v);
}

void parameter_server_state::finish_work() {
  if (next_.all().empty()) {
    feed_.finish();
    hand_over_last();
  }
  // Saved already: then only its digest is needed.
  if (!checkpoints_.take() && model_.has_weights() && shards_.any() &&
      shards_.complete())
    checkpoints_.collect([this](const snapshot_ptr& what) {
      note_state(*what);
      note_idle();
    });
  if (feed_.evaluators() == 0 || !feed_.last_open())
    ending_.scored();
  else
    self_->delayed_send(
      self_, to_timespan(parts_.settings.evaluation.eval_timeout), tick_atom_v);
  if (!ending_.is_closed())
    self_->run_delayed(to_timespan(parts_.save_timeout),
                       [this] { give_saving_up(); });
  note_idle();
}

// To the members that take it, through the coordinator, which stays until they
// have left.
void parameter_server_state::hand_over_last() {
  if (!model_.has_weights() || (!last_is_wanted_ && feed_.evaluators() == 0))
    return;
  auto what = scheduler_.current();
  auto applied = requests_.applied();
  if (!shards_.any())
    return self_->send(coordinator_, ended_atom_v, what, applied,
                       model_.newest());
  if (!shards_.complete())
    return;
  ending_.collecting();
  shard_fetch parts;
  auto whole = model_.make_whole();
  parts.width = static_cast<uint64_t>(whole.element_size());
  parts.weights = whole;
  shards_.fetch(std::move(parts), [this, what, applied, whole] {
    self_->send(coordinator_, ended_atom_v, what, applied, to_payload(whole));
    ending_.collected();
  });
}

void parameter_server_state::note_idle() {
  if (ending_.begun() && checkpoints_.is_idle())
    ending_.saved();
}

void parameter_server_state::note_state(const snapshot& what) {
  if (!ending_.begun() || what.manifest.step() != scheduler_.current().value)
    return;
  weights_sha256_ = weights_sha256(what);
  state_sha256_ = state_sha256(what);
}

void parameter_server_state::give_saving_up() {
  if (!ending_.is_saved())
    ending_.fail(
      "the last checkpoint was not written within " +
      config::print(parts_.save_timeout) +
      " s: the disk takes no more; free it and go on with --resume auto");
}

} // namespace troupe
