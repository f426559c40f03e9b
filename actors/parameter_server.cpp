#include "actors/parameter_server.hpp"

#include "actors/restore.hpp"
#include "config/failure.hpp"

#include <ATen/Parallel.h>

#include <algorithm>
#include <iterator>
#include <utility>

namespace troupe {

parameter_server_state::parameter_server_state(pointer self,
                                               parameter_server_parts parts)
  : self_(self), parts_(std::move(parts)), model_(make_server_model(parts_)),
    remotes_(self, parts_.remote_shards,
             [this](const caf::error& why) { note_shards(why); }),
    conductor_(make_conductor(parts_)),
    board_(parts_.settings.evaluation.eval_freq.steps,
           conductor_.ledger().epochs_completed()),
    lr_(parts_.settings.training), statistics_(parts_.settings.cluster.workers),
    clock_(self), tape_(parts_.tape, self->clock().now()), best_(parts_.best) {
  if (parts_.resumed) {
    before_ = statistics_.load(parts_.resumed->manifest.counters());
    clock_ = run_clock{self, before_.elapsed_seconds};
    epochs_noted_ = conductor_.ledger().epochs_completed();
    last_checkpoint_ = conductor_.current();
  }
  // What was rolled back left its best weights behind.
  if (best_)
    statistics_.evaluated(best_->step, best_->loss, best_->accuracy);
}

lead_actor::behavior_type parameter_server_state::make_behavior() {
  at::set_num_threads(parts_.threads);
  return {
    [this](push_atom, const push_header& header, const payload& gradient) {
      return push(header, gradient);
    },
    [this](pull_atom, const pull_header& header) { return pull(header); },
    [this](watch_atom, version after) { return watch(after); },
    [this](score_atom, const score& found) { take_score(found); },
    [this](attach_atom, const coordinator_actor& coordinator) {
      begin(coordinator);
    },
    [this](attach_atom, const shard_registrar_actor& registrar,
           const std::vector<remote_shard_actor>& shards) {
      remotes_.begin(registrar, shards);
    },
    [this](report_atom, const part_report& what) { remotes_.note(what); },
    [this](enlist_atom, worker_id who, incarnation life,
           const std::string& transport, const owned_data& data,
           const worker_actor& handle) {
      enlist(who, life, transport, data, handle);
    },
    [this](join_atom, const std::vector<worker_id>& who) { join(who); },
    [this](leave_atom, worker_id who, incarnation life,
           const std::string& reason) { leave(who, life, reason); },
    [this](audience_atom, uint32_t evaluators) { set_audience(evaluators); },
    [this](refuse_atom, const std::string& line) { fail_for_others(line); },
    [this](tick_atom) { give_score_up(); },
    [this](stop_atom) { stop(); },
  };
}

void parameter_server_state::begin(const coordinator_actor& coordinator) {
  coordinator_ = coordinator;
  tell(&witness::began, parts_.life,
       parts_.resumed ? &parts_.resumed->manifest : nullptr);
  record(notes::started{parts_.run_id, parts_.settings.policy.name});
  if (parts_.resumed)
    record(notes::resumed{parts_.life, changes_of_this_life()});
  // A run that is resumed may have reached its limits already.
  cores::orders decided;
  decided.stop = conductor_.reached();
  keep(inputs::started{}, decided);
  if (decided.stop)
    begin_ending("completed", *decided.stop);
}

// -- what workers send --------------------------------------------------------

auto parameter_server_state::push(const push_header& header,
                                  const payload& gradient) -> weights_result {
  auto asks = self_->make_response_promise<release_header, payload>();
  auto sum = parts_.sums ? parts_.sums->find(header.id, gradient)
                         : std::optional<gradient_sum>{};
  if (sum)
    accept_part(*sum, {header, gradient, asks});
  else if (must_wait())
    waiting_.push_back([=, this] { accept(header, gradient, asks); });
  else
    accept(header, gradient, asks);
  return asks;
}

void parameter_server_state::accept(const push_header& header,
                                    const payload& gradient,
                                    weights_promise asks) {
  request_id id{header.id.worker, header.id.life, header.request};
  if (auto err = objection(header)) {
    // What has arrived before may be held for a step.
    remotes_.refuse(id, err == errc::duplicate ? push_id{} : header.id);
    return asks.deliver(err);
  }
  if (auto why = check(header, gradient); why != errc::none) {
    remotes_.refuse(id, header.id);
    return asks.deliver(refuse(header, why));
  }
  hold(id, asks);
  auto sound = model_.sound(gradient);
  if (!remotes_.any())
    return take(header, gradient, sound);
  remotes_.expect(id, header.id, sound, [this, header, gradient](bool all) {
    take(header, gradient, all);
  });
}

// All shards have their part, and it is known what it is worth.
void parameter_server_state::take(const push_header& header,
                                  const payload& gradient, bool sound) {
  if (!sound) {
    auto asks = std::exchange(members_.at(header.id.worker).asks, std::nullopt);
    asks->deliver(refuse(header, errc::not_finite));
    return remotes_.drop({header.id});
  }
  statistics_.skipped(header.skipped);
  tell(&witness::accepted, header);
  held_.emplace(header.id, held_push{header, gradient});
  auto from = lease_of(header);
  auto decided = conductor_.push({header.id, header.computed_on, header.from});
  keep(inputs::arrived{header, from}, decided);
  carry_out(std::move(decided));
}

auto parameter_server_state::pull(const pull_header& header) -> weights_result {
  auto asks = self_->make_response_promise<release_header, payload>();
  if (must_wait())
    waiting_.push_back([=, this] { accept(header, asks); });
  else
    accept(header, asks);
  return asks;
}

void parameter_server_state::accept(const pull_header& header,
                                    weights_promise asks) {
  request_id id{header.worker, header.life, header.request};
  push_id no_gradient{header.worker, header.life, sequence{0}};
  if (auto err = unwelcome(header.worker, header.life, header.server)) {
    remotes_.refuse(id, no_gradient);
    return asks.deliver(err);
  }
  hold(id, asks);
  if (remotes_.any())
    remotes_.expect(id, no_gradient, true,
                    [this, header](bool) { hear(header); });
  else
    hear(header);
}

void parameter_server_state::hear(const pull_header& header) {
  tell(&witness::pulled, header.worker, header.abandoned);
  auto decided = conductor_.pull(header.worker, header.abandoned);
  keep(inputs::pulled{header}, decided);
  carry_out(std::move(decided));
}

caf::error parameter_server_state::objection(const push_header& header) {
  if (auto err = unwelcome(header.id.worker, header.id.life, header.server))
    return err;
  switch (conductor_.admit(header.id)) {
  case cores::freshness::fresh:
    return {};
  case cores::freshness::stale_incarnation:
    return caf::make_error(errc::stale_incarnation,
                           "gradient of an earlier life of worker " +
                             to_string(header.id.worker));
  default:
    return caf::make_error(errc::duplicate, "gradient " + to_string(header.id) +
                                              " has arrived before");
  }
}

// Of all but its numbers. A gradient of somebody else's samples would count
// them twice; of one that never fitted only the shape has come.
errc parameter_server_state::check(const push_header& header,
                                   const payload& gradient) const {
  if (!conductor_.holds(header.id.worker, header.from, header.samples))
    return errc::protocol_violation;
  auto here = gradient || gradient.shape().bytes() == 0;
  return here && model_.fits(gradient) ? errc::none : errc::wrong_size;
}

caf::error parameter_server_state::refuse(const push_header& header, errc why) {
  auto who = header.id.worker;
  std::string reason = "gradient holds NaN or infinite numbers";
  if (why == errc::wrong_size)
    reason = "gradient does not have the model's size";
  else if (why == errc::protocol_violation)
    reason = "gradient is not of a lease of this worker";
  keep(inputs::arrived{header, lease_of(header), why});
  tell(&witness::refused, header);
  statistics_.refused(who, times_of(header));
  statistics_.skipped(header.skipped);
  record(notes::refused{who, reason});
  if (conductor_.refuse({header.id, header.computed_on, header.from}))
    expel(who, header.id.life, reason);
  return caf::make_error(why, "worker " + to_string(who) + ": " + reason);
}

void parameter_server_state::expel(worker_id who, incarnation life,
                                   const std::string& reason) {
  auto line = "expelled: its last " +
              std::to_string(cores::refusals::default_limit) +
              " gradients were refused (" + reason +
              "); if the loss grew before, lower --lr";
  self_->send(coordinator_, leave_atom_v, who, life, line);
  if (conductor_.members() == 1)
    fail("no worker is left; the last was " + line);
}

// The answer comes later. A worker has one request at a time; an earlier one
// that is still open belongs to a lost connection.
void parameter_server_state::hold(const request_id& id, weights_promise asks) {
  auto& who = members_.at(id.worker);
  who.asks = std::move(asks);
  who.request = id.number;
}

caf::error parameter_server_state::unwelcome(worker_id who, incarnation life,
                                             incarnation server) const {
  if (ending_)
    return caf::make_error(errc::shutting_down, std::string{"the run is over"});
  switch (conductor_.look_at(who, life, server)) {
  case cores::standing::welcome:
    return {};
  case cores::standing::earlier_server:
    return caf::make_error(errc::stale_incarnation,
                           std::string{"meant for an earlier life of the "
                                       "parameter server"});
  default:
    return caf::make_error(errc::unknown_member,
                           "worker " + to_string(who) + " is not in the cast");
  }
}

// -- who is there -------------------------------------------------------------

void parameter_server_state::enlist(worker_id who, incarnation life,
                                    const std::string& transport,
                                    const owned_data& data,
                                    const worker_actor& handle) {
  if (!ending_)
    keep(inputs::enlisted{who, life, transport, data});
  tell(&witness::enlisted, who, life);
  conductor_.enlist(who, life, data);
  members_[who] = member{life, handle, std::nullopt, sequence{0}, sequence{0}};
  transports_["worker-" + to_string(who)] = transport;
  record(notes::joined{who, life});
}

void parameter_server_state::join(const std::vector<worker_id>& who) {
  if (ending_)
    return;
  tell(&witness::entered, std::span{who});
  auto decided = conductor_.join(who);
  keep(inputs::joined{who}, decided);
  carry_out(std::move(decided));
}

void parameter_server_state::leave(worker_id who, incarnation life,
                                   const std::string& reason) {
  leave_sums(who, life);
  if (!conductor_.knows(who, life) || !members_.contains(who))
    return;
  auto gone = std::move(members_.at(who));
  members_.erase(who);
  remotes_.leave(who, life);
  if (ending_) // The weights stay as they are: no step closes any more.
    return;
  tell(&witness::left, who, life);
  auto decided = conductor_.leave(who, life);
  keep(inputs::left{who, life, reason}, decided);
  record(notes::left{who, life, reason});
  if (gone.asks)
    gone.asks->deliver(caf::make_error(errc::unknown_member, reason));
  carry_out(std::move(decided));
}

void parameter_server_state::set_audience(uint32_t evaluators) {
  keep(inputs::audience{evaluators});
  audience_ = evaluators;
  while (shown_.size() > audience_ + 1)
    shown_.erase(shown_.begin());
  if (ending_ && audience_ == 0)
    give_score_up();
}

void parameter_server_state::stop() {
  if (ending_)
    return;
  keep(inputs::stopped{});
  begin_ending("stopped", "stopped by a signal");
}

// -- helpers ------------------------------------------------------------------

std::vector<config::change>
parameter_server_state::changes_of_this_life() const {
  std::vector<config::change> out;
  std::ranges::copy_if(
    parts_.description.changes, std::back_inserter(out),
    [&](const auto& one) { return one.life == parts_.life.value; });
  return out;
}

// For the tape; a lease that is not this worker's is but a number.
lease parameter_server_state::lease_of(const push_header& header) const {
  if (!tape_)
    return {};
  if (conductor_.holds(header.id.worker, header.from, header.samples))
    return *conductor_.ledger().find(header.from);
  return {header.from, 0, 0, header.samples};
}

recording::push_times
parameter_server_state::times_of(const push_header& header) {
  return {header.compute_seconds + header.data_seconds, header.wait_seconds,
          header.data_seconds};
}

double parameter_server_state::elapsed() const {
  return clock_.elapsed(self_);
}

// What was left out of an epoch is over, too.
double parameter_server_state::epochs() const {
  if (parts_.samples == cores::endless)
    return 0;
  const auto& ledger = conductor_.ledger();
  auto samples = ledger.samples();
  if (samples == 0) // Nobody has told of any yet.
    return 0;
  return static_cast<double>(statistics_.samples_applied() +
                             ledger.left_out()) /
         static_cast<double>(samples);
}

recording::run_times parameter_server_state::times() const {
  recording::run_times out;
  out.elapsed_seconds = elapsed();
  out.wall_seconds = before_.wall_seconds + wall_.elapsed();
  if (!parts_.began)
    return out;
  out.virtual_seconds = before_.virtual_seconds.value_or(0);
  if (auto start = parts_.began(); start && last_update_ > *start)
    *out.virtual_seconds +=
      std::chrono::duration<double>(last_update_ - *start).count();
  return out;
}

} // namespace troupe
