#pragma once
// A worker with local steps whose compute actor, loader and server are
// stand-ins.

#include "actors/worker/worker.hpp"
#include "data/dataset.hpp"
#include "tests/support/doubles.hpp"
#include "tests/support/payloads.hpp"

#include <utility>
#include <vector>

namespace troupe::test {

inline const registration round_role{worker_id{3}, life_number{2},
                                     life_number{5}};

inline lease lease_of(uint64_t id, uint64_t epoch = 0) {
  return {lease_id{id}, epoch, 8 * id, 8};
}

/// Leases `first` to `last`.
inline std::vector<lease> leases(uint64_t first, uint64_t last) {
  std::vector<lease> out;
  for (auto id = first; id <= last; ++id)
    out.push_back(lease_of(id));
  return out;
}

struct round_desk {
  explicit round_desk(uint32_t steps, uint32_t early = 0) {
    worker_parts parts{compute.handle, loader.handle, session.handle};
    parts.local_steps = steps;
    parts.overlap_steps = early;
    worker = actors.make<worker_actor, worker_state>(parts);
    actors.tell(worker, attach_atom_v, server.handle, round_role,
                gradient_way{});
  }

  template <class Request>
  void give_weights(Request& to, uint64_t at, std::vector<lease> work,
                    uint32_t steps = 0, bool goes_on = false) {
    to.promise.deliver(release_header{version{at}, round_role.server, work,
                                      false, steps, 0, goes_on},
                       weights);
    actors.run();
  }

  /// Answers a push that was taken.
  void go_on(size_t push, uint64_t at, std::vector<lease> work) {
    give_weights(server->pushes.at(push), at, std::move(work), 0, true);
  }

  const compute_task& task(size_t i) const { return compute->tasks.at(i); }

  void finish(size_t i, double loss = 1) {
    const auto& asked = task(i);
    gradient_report report;
    report.cancelled = asked.cancel->load();
    if (asked.local->ends)
      report.gradient = constant_payload(4, 2);
    report.samples = asked.batch ? 8 : 0;
    report.loss = loss;
    report.seconds = 0.25;
    report.inner_steps = 40;
    compute->promises[i].deliver(report);
    actors.run();
  }

  actor_fixture actors;
  payload weights = constant_payload(4, 1);
  batch_ptr batch = std::make_shared<data::batch>();
  compute_stand_in compute = make_compute_stand_in(actors);
  loader_stand_in loader = make_loader_stand_in(actors, batch);
  session_client_stand_in session = make_session_client_stand_in(actors);
  server_stand_in server = make_server_stand_in(actors);
  worker_actor worker;
};

} // namespace troupe::test
