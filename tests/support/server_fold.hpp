#pragma once
// Rebuilds the state of a parameter server, except tensors, from the events of
// its log alone, and checks each decision. Owned by a test.

#include "actors/events/event_log_writer.hpp"
#include "actors/server/parameter_server.hpp"
#include "actors/server/restore.hpp"
#include "actors/server/run_metrics.hpp"
#include "config/runs/policy_change.hpp"

#include <google/protobuf/util/message_differencer.h>

#include <memory>
#include <string>
#include <vector>

namespace troupe::test {

class server_fold : private note_sink {
public:
  explicit server_fold(const parameter_server_parts& parts)
    : parts_(parts), scheduler_(make_step_scheduler(parts)),
      metrics_(*this, metrics_parts()) {
    // nop
  }

  /// Applies the next event. Throws `std::logic_error` when the same input
  /// leads to another decision.
  void apply(const proto::LogEvent& from) {
    event at;
    at.decided = decide(from, at.what);
    at.newest = scheduler_.current();
    at.rates.assign(at.decided.updates.size(), 0);
    proto::LogEvent again;
    event_log_writer log{[&](proto::LogEvent& x) { again = x; }, {}};
    log.on_event(at);
    if (!google::protobuf::util::MessageDifferencer::Equals(from.decision(),
                                                            again.decision()))
      throw std::logic_error(
        "event " + std::to_string(from.number()) +
        " leads to another decision: " + again.decision().ShortDebugString());
    metrics_.on_event(at);
    if (refused_)
      scheduler_.refuse(*std::exchange(refused_, std::nullopt));
  }

  version current() const { return scheduler_.current(); }

  /// The parts of a checkpoint's manifest that are no times.
  proto::Manifest manifest() const {
    proto::Manifest out;
    fill_manifest(parts_, scheduler_, out);
    metrics_.statistics().save(*out.mutable_counters(), {});
    return out;
  }

private:
  double elapsed() const override { return 0; }

  void record(const note_ptr&) override {
    // nop
  }

  run_metrics_parts metrics_parts() {
    run_metrics_parts out;
    out.settings = parts_.settings;
    out.scheduler = &scheduler_;
    return out;
  }

  cores::orders decide(const proto::LogEvent& from, input& cause) {
    cores::orders out;
    if (from.has_started()) {
      cause = inputs::started{parts_.life()};
      out.stop = scheduler_.reached();
    } else if (from.has_enlisted()) {
      const auto& x = from.enlisted();
      inputs::enlisted in{worker_id{x.worker()},
                          life_number{x.life()},
                          x.transport(),
                          {x.samples(), x.data_digest()},
                          x.leases() > 0 ? x.leases() : cores::leases_ahead,
                          x.device()};
      scheduler_.enlist(in.who, in.life, in.data, in.leases);
      cause = std::move(in);
    } else if (from.has_joined()) {
      inputs::joined in;
      for (auto who : from.joined().workers())
        in.who.push_back(worker_id{who});
      out = scheduler_.join(in.who);
      cause = std::move(in);
    } else if (from.has_left()) {
      const auto& x = from.left();
      inputs::left in{worker_id{x.worker()}, life_number{x.life()}, x.reason()};
      out = scheduler_.leave(in.who, in.life);
      cause = std::move(in);
    } else if (from.has_pulled()) {
      inputs::pulled in;
      in.header.worker = worker_id{from.pulled().worker()};
      in.header.life = life_number{from.pulled().life()};
      in.header.abandoned = lease_id{from.pulled().abandoned()};
      for (auto id : from.pulled().also())
        in.header.also.emplace_back(id);
      out = scheduler_.pull(in.header.worker, in.header.leases());
      cause = in;
    } else if (from.has_arrived()) {
      out = arrive(from.arrived(), cause);
    } else if (from.has_deadline_passed()) {
      const auto& x = from.deadline_passed();
      inputs::deadline_passed in{worker_id{x.worker()}, life_number{x.life()}};
      out = scheduler_.deal_again(in.who, in.life);
      cause = in;
    } else if (from.has_window_over()) {
      inputs::window_over in{version{from.window_over().version()}};
      out = scheduler_.window_over(in.at);
      cause = in;
    } else if (from.has_policy_changed()) {
      inputs::policy_changed in{from.policy_changed().policy()};
      parts_.settings = config::with_policy(parts_.settings, in.policy);
      out = scheduler_.follow(
        policies::make_policy(make_policy_spec(parts_.settings)));
      cause = std::move(in);
    } else if (from.has_scored()) {
      inputs::scored in;
      in.found.weights = version{from.scored().version()};
      for (const auto& one : from.scored().metrics())
        in.found.metrics.push_back({one.name(), one.value()});
      if (!over_)
        out.stop = scheduler_.scored(in.found.metrics);
      cause = in;
    } else if (from.has_stopped()) {
      cause = inputs::stopped{};
      over_ = true;
    }
    over_ = over_ || out.stop;
    return out;
  }

  static lease lease_of(const proto::LogLease& x) {
    return {lease_id{x.id()}, x.epoch(), x.first(), x.count(), x.part()};
  }

  cores::orders arrive(const proto::LogArrived& x, input& cause) {
    inputs::arrived in;
    auto& header = in.header;
    header.id = {worker_id{x.worker()}, life_number{x.life()},
                 sequence{x.sequence()}};
    header.computed_on = version{x.computed_on()};
    header.from = lease_id{x.lease().id()};
    header.samples = x.lease().count();
    in.from = {lease_of(x.lease())};
    for (const auto& other : x.also()) {
      header.also.emplace_back(other.id());
      header.samples += other.count();
      in.from.push_back(lease_of(other));
    }
    header.loss = x.loss();
    header.compute_seconds = x.compute_seconds();
    header.wait_seconds = x.wait_seconds();
    header.data_seconds = x.data_seconds();
    header.idle_seconds = x.idle_seconds();
    header.skipped = x.skipped();
    cores::push_facts facts{header.id, header.computed_on, header.leases(),
                            header.samples,
                            header.compute_seconds + header.data_seconds};
    if (scheduler_.admit(header.id) != cores::freshness::fresh)
      throw std::logic_error("a gradient comes twice: " + to_string(header.id));
    cores::orders out;
    if (x.refused().empty()) {
      out = scheduler_.push(facts);
    } else {
      in.refused = errc::not_finite;
      refused_ = facts;
    }
    cause = std::move(in);
    return out;
  }

  parameter_server_parts parts_;
  cores::step_scheduler scheduler_;
  run_metrics metrics_;
  std::optional<cores::push_facts> refused_;
  bool over_ = false;
};

} // namespace troupe::test
