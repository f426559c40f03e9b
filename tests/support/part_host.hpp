#pragma once
// What the tests of one part of the parameter server need around it. No
// weights: versions are only counted.

#include "actors/server/parameter_server.hpp"
#include "actors/server/version_feed.hpp"
#include "actors/server/worker_requests.hpp"
#include "tests/support/doubles.hpp"

#include <functional>
#include <string>
#include <vector>

namespace troupe::test {

using strings = std::vector<std::string>;
using weights_answer = answer_ptr<release_header, payload>;
using watch_answer = answer_ptr<watch_header, payload>;

/// A lead that keeps what its parts tell it.
struct lead_double : lead {
  version newest() const override { return made; }
  double elapsed() const override { return 1; }
  void record(const note_ptr& what_happened) override {
    notes.push_back(what_happened);
  }

  bool makes_steps() const override { return busy; }
  void push_arrived(const arrived_push& push) override {
    said.push_back("push " + to_string(push.header.id.worker));
  }
  void push_refused(const arrived_push& push, errc,
                    const std::string& reason) override {
    said.push_back(to_string(push.header.id.worker) + ": " + reason);
  }
  void pull_arrived(const pull_header& header) override {
    said.push_back("pull " + to_string(header.worker));
  }

  void push_settled(const push_id& id, bool) override {
    said.push_back(to_string(id.worker));
  }
  void steps_ordered(const cores::orders&) override {
    said.emplace_back("ordered");
  }
  void versions_made(version before, version newest) override {
    said.push_back("makes " + to_string(before) + " to " + to_string(newest));
  }
  void decision_done(const cores::orders&) override {
    said.emplace_back("done");
  }
  void attempt(const std::function<void()>& work) override { work(); }
  void attempt_later(const std::function<void()>& work) override { work(); }

  void describe(snapshot& out) const override {
    out.manifest.set_step(made.value);
  }
  std::vector<served_worker> workers() const override { return {}; }
  void state_collected(const snapshot&) override {}
  void state_saved(const snapshot&, const std::string& name) override {
    said.push_back(name);
  }
  void saving_failed(const std::string& line) override {
    said.push_back("failed: " + line);
  }
  void saving_is_idle() override {
    said.emplace_back(is_idle && is_idle() ? "idle" : "busy");
  }

  void stop_workers(const std::string& reason) override {
    said.push_back("stop: " + reason);
    if (when_stopped)
      when_stopped();
  }
  void finish_work() override { said.emplace_back("work"); }
  void give_up_saving() override { said.emplace_back("give up"); }
  void close_run() override { said.emplace_back("close"); }

  version made;
  bool busy = false;
  std::vector<note_ptr> notes;
  strings said;
  std::function<bool()> is_idle;      ///< May be empty.
  std::function<void()> when_stopped; ///< May be empty.
};

/// The actor that a part lives in, and what most parts need.
struct part_host {
  part_host() {
    handle = actors.stand_in<lead_actor>([this](lead_actor::pointer me) {
      self = me;
      return behavior();
    });
    actors.run();
  }

  lead_actor::behavior_type behavior() {
    return {
      [this](push_atom, const push_header& header, const payload& gradient) {
        return push(header, gradient);
      },
      [this](pull_atom, const pull_header& header) { return pull(header); },
      [this](watch_atom, const watch_request& request) {
        return watch(request);
      },
      [](score_atom, const score&) {},
      [](coordinator_atom, const coordinator_actor&) {},
      [](shards_atom, const shard_registrar_actor&,
         const std::vector<remote_shard_actor>&) {},
      [](report_atom, const part_report&) {},
      [](enlist_atom, worker_id, life_number, const registration_request&,
         const worker_actor&) {},
      [](join_atom, const std::vector<worker_id>&) {},
      [](leave_atom, worker_id, life_number, const std::string&) {},
      [](evaluators_atom, uint32_t) {},
      [](refuse_atom, const std::string&) {},
      [](ended_atom, const run_end&) {},
      [](fetch_atom) {},
      [](tick_atom) {},
      [](tick_atom, worker_id, life_number) {},
      [](tick_atom, version) {},
      [](policy_atom, const std::string&) { return version{}; },
      [](stop_atom) {},
    };
  }

  watch_answer asks_after(uint64_t seen) {
    auto out = actors.ask<watch_header, payload>(handle, watch_atom_v,
                                                 watch_request{version{seen}});
    actors.run();
    return out;
  }

  weights_answer pulls(worker_id who, life_number server = life_number{1}) {
    auto out = actors.ask<release_header, payload>(
      handle, pull_atom_v,
      pull_header{who, life_number{1}, server, lease_id{0}});
    actors.run();
    return out;
  }

  actor_fixture actors;
  lead_double server;
  lead_actor::pointer self = nullptr;
  lead_actor handle;
  server_model model;
  std::function<worker_requests::weights_result(const push_header&,
                                                const payload&)>
    push;
  std::function<worker_requests::weights_result(const pull_header&)> pull;
  std::function<version_feed::watch_result(const watch_request&)> watch;
};

inline push_id push_of(uint32_t worker, uint64_t number) {
  return {worker_id{worker}, life_number{1}, sequence{number}};
}

inline push_header push_header_of(const push_id& id, uint64_t samples = 8) {
  push_header out;
  out.id = id;
  out.samples = samples;
  out.server = life_number{1};
  return out;
}

/// A step that is made of these.
inline cores::update_order step_of(uint64_t makes,
                                   const std::vector<push_id>& of) {
  cores::update_order out;
  out.makes = version{makes};
  for (const auto& id : of)
    out.gradients.push_back({id, 0, 1});
  return out;
}

/// Two workers, asynchronous, over 1,000 samples.
inline parameter_server_parts two_workers() {
  parameter_server_parts out;
  out.settings.policy.name = "async";
  out.settings.cluster.workers = 2;
  out.settings.training.batch_size = 8;
  out.description.life = 1;
  out.data.samples = 1000;
  return out;
}

} // namespace troupe::test
