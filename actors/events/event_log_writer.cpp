#include "actors/events/event_log_writer.hpp"

#include <cmath>

namespace troupe {

namespace {

void put(const lease& work, proto::LogLease& out) {
  out.set_id(work.id.value);
  out.set_epoch(work.epoch);
  out.set_first(work.first);
  out.set_count(work.count);
  out.set_part(work.part);
}

void put(const push_id& id, uint64_t staleness, proto::LogPush& out) {
  out.set_worker(id.worker.value);
  out.set_life(id.life.value);
  out.set_sequence(id.seq.value);
  out.set_staleness(staleness);
}

template <class Message>
void put(const config::metrics& all, Message& out) {
  for (const auto& one : all) {
    auto& metric = *out.add_metrics();
    metric.set_name(one.name);
    metric.set_value(one.value);
  }
}

} // namespace

void event_log_writer::on_event(const event& entry) {
  if (!sink_ || !is_logged(entry.what))
    return;
  event_.Clear();
  event_.set_time_ns(
    std::chrono::duration_cast<std::chrono::nanoseconds>(entry.time - start_)
      .count());
  std::visit([this](const auto& input) { fill(input); }, entry.what);
  fill(entry.decided);
  try {
    sink_(event_);
  } catch (...) {
    sink_ = nullptr; // What follows an event that is missing is of no use.
    throw;
  }
}

// A worker that comes after the end of training takes no part, and a replay
// does not see it.
bool event_log_writer::is_logged(const input& cause) {
  ending_ = ending_ || std::holds_alternative<inputs::ending>(cause);
  return !std::holds_alternative<inputs::saved>(cause) &&
         !std::holds_alternative<inputs::ending>(cause) &&
         !(ending_ && std::holds_alternative<inputs::enlisted>(cause));
}

void event_log_writer::fill(const inputs::started&) {
  event_.mutable_started();
}

void event_log_writer::fill(const inputs::enlisted& cause) {
  auto& out = *event_.mutable_enlisted();
  out.set_worker(cause.who.value);
  out.set_life(cause.life.value);
  out.set_transport(cause.transport);
  out.set_samples(cause.data.samples);
  out.set_data_digest(cause.data.digest);
  if (cause.leases != cores::leases_ahead)
    out.set_leases(cause.leases);
  out.set_device(cause.device);
}

void event_log_writer::fill(const inputs::joined& cause) {
  auto& out = *event_.mutable_joined();
  for (auto who : cause.who)
    out.add_workers(who.value);
}

void event_log_writer::fill(const inputs::left& cause) {
  auto& out = *event_.mutable_left();
  out.set_worker(cause.who.value);
  out.set_life(cause.life.value);
  out.set_reason(cause.reason);
}

void event_log_writer::fill(const inputs::pulled& cause) {
  auto& out = *event_.mutable_pulled();
  out.set_worker(cause.header.worker.value);
  out.set_life(cause.header.life.value);
  out.set_abandoned(cause.header.abandoned.value);
  for (auto id : cause.header.also)
    out.add_also(id.value);
}

void event_log_writer::fill(const inputs::arrived& cause) {
  const auto& header = cause.header;
  auto& out = *event_.mutable_arrived();
  out.set_worker(header.id.worker.value);
  out.set_life(header.id.life.value);
  out.set_sequence(header.id.seq.value);
  out.set_computed_on(header.computed_on.value);
  put(cause.from.front(), *out.mutable_lease());
  for (size_t i = 1; i < cause.from.size(); ++i)
    put(cause.from[i], *out.add_also());
  out.set_loss(header.loss);
  out.set_compute_seconds(header.compute_seconds);
  out.set_wait_seconds(header.wait_seconds);
  out.set_data_seconds(header.data_seconds);
  out.set_idle_seconds(header.idle_seconds);
  out.set_skipped(header.skipped);
  out.set_inner_steps(header.inner_steps);
  out.set_early_steps(header.early_steps);
  put(header.metrics, out);
  if (cause.norm) {
    out.set_norm(cause.norm->norm);
    if (cause.norm->median)
      out.set_median(*cause.norm->median);
  }
  if (cause.refused != errc::none)
    out.set_refused(to_string(cause.refused));
}

void event_log_writer::fill(const inputs::deadline_passed& cause) {
  auto& out = *event_.mutable_deadline_passed();
  out.set_worker(cause.who.value);
  out.set_life(cause.life.value);
}

void event_log_writer::fill(const inputs::window_over& cause) {
  event_.mutable_window_over()->set_version(cause.at.value);
}

void event_log_writer::fill(const inputs::policy_changed& cause) {
  event_.mutable_policy_changed()->set_policy(cause.policy);
}

void event_log_writer::fill(const inputs::scored& cause) {
  auto& out = *event_.mutable_scored();
  out.set_version(cause.found.weights.value);
  out.set_samples(cause.found.samples);
  out.set_seconds(cause.found.seconds);
  put(cause.found.metrics, out);
}

void event_log_writer::fill(const inputs::evaluators& cause) {
  event_.mutable_evaluators()->set_count(cause.count);
}

void event_log_writer::fill(const inputs::stopped&) {
  event_.mutable_stopped();
}

void event_log_writer::fill(const inputs::failed& cause) {
  event_.mutable_failed()->set_line(cause.line);
}

void event_log_writer::fill(const inputs::ended& cause) {
  auto& out = *event_.mutable_ended();
  out.set_status(cause.status);
  out.set_steps(cause.steps.value);
  out.set_weights_sha256(cause.weights_sha256.value_or(""));
  out.set_state_sha256(cause.state_sha256.value_or(""));
}

void event_log_writer::fill(const cores::orders& decided) {
  if (decided.drop.empty() && decided.updates.empty() && !decided.stop &&
      decided.release.empty() && decided.cancel.empty() && !decided.members &&
      !decided.window)
    return;
  auto& out = *event_.mutable_decision();
  if (decided.members) {
    auto& members = *out.mutable_members();
    members.set_count(decided.members->count);
    members.set_paused(decided.members->paused);
  }
  for (const auto& late : decided.drop)
    put(late.id, late.staleness, *out.add_drops());
  for (const auto& step : decided.updates) {
    auto& update = *out.add_updates();
    update.set_makes(step.makes.value);
    if (step.rate_factor != 1)
      update.set_rate_factor(step.rate_factor);
    update.set_members(step.members);
    update.set_momentum_stays(!step.momentum.decays);
    update.set_momentum_rests(!step.momentum.moves);
    for (const auto& part : step.gradients) {
      auto& gradient = *update.add_gradients();
      put(part.id, part.staleness, gradient);
      if (part.weight != 1)
        gradient.set_weight(part.weight);
    }
  }
  if (decided.stop)
    out.set_stop(*decided.stop);
  for (const auto& next : decided.release) {
    auto& release = *out.add_releases();
    release.set_worker(next.worker.value);
    release.set_steps(next.steps);
    release.set_fragment(next.turn.pushes);
    release.set_goes_on(next.turn.goes_on);
    for (const auto& work : next.leases)
      put(work, *release.add_leases());
  }
  for (auto who : decided.cancel)
    out.add_cancels(who.value);
  if (decided.window)
    out.set_window(decided.window->seconds);
}

} // namespace troupe
