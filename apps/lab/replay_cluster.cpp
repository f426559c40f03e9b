#include "apps/lab/replay_cluster.hpp"

#include "actors/runtime/spawning.hpp"
#include "apps/lab/replay/replay_driver.hpp"
#include "apps/lab/replay_plan.hpp"
#include "apps/trainer_node/external_process.hpp"
#include "apps/trainer_node/server_life.hpp"

#include <memory>
#include <optional>
#include <utility>

namespace troupe::app {

namespace {

/// The program that computes the gradients of a replay once more, if the
/// settings name one. It is told how the replay ends.
external_compute process_for_replay(const computing_parts& computing,
                                    const virtual_run_options& options,
                                    end_callback& on_end) {
  auto out = process_for(computing.settings, options.interrupted);
  if (!out.line)
    return out;
  require_same_samples(out, *computing.data.train);
  out.memory.host = std::make_shared<transport::shared_memory>();
  on_end = [line = out.line, then = std::move(on_end)](const run_end& how) {
    line->end(how);
    then(how);
  };
  return out;
}

/// Who computes the gradients; null: nothing is trained.
std::shared_ptr<replay::recomputing>
make_recomputing(const computing_parts& computing,
                 const external_compute& process, const replay_plan& recorded) {
  if (process.line)
    return replay::recompute_in(process.line, process.memory, computing);
  if (computing.data.train)
    return replay::recompute_here(
      computing, computing.threads, {recorded.folder},
      version{recorded.event_log->begin().start_version()});
  return nullptr;
}

/// Writes each event of the server, and compares it with the recorded one.
event_sink compared_with(const std::shared_ptr<replay::recorded_run>& event_log,
                         const event_sink& write) {
  return [event_log, write](proto::LogEvent& event) {
    if (write)
      write(event);
    event_log->check(event);
  };
}

} // namespace

virtual_cluster start_replay(caf::actor_system& system, server_plan plan,
                             const virtual_run_options& options,
                             end_callback on_end) {
  const auto& recorded = *options.replay;
  auto& parts = plan.parts;
  auto process = process_for_replay(plan.computing, options, on_end);
  replay::replay_driver_parts driver;
  driver.event_log = recorded.event_log;
  for (const auto& own : plan.computing.own_data)
    driver.own_data.push_back({own->size(), own->digest()});
  driver.gradients = make_recomputing(plan.computing, process, recorded);
  const auto& training = parts.settings.training;
  models::fragments cuts{plan.layout, training.fragments};
  for (uint32_t k = 0; k < cuts.count(); ++k)
    driver.gradients_of.push_back(
      {shape_of(plan.layout).type, cuts.all(k).count});
  driver.strict = recorded.strict;
  driver.say = voice(options.silent);
  driver.began =
    std::make_shared<std::optional<caf::actor_clock::time_point>>();
  parts.began = [began = driver.began] {
    return *began;
  };
  parts.keeps_time = false;
  parts.recorded_norm = [event_log = recorded.event_log] {
    return event_log->norm();
  };
  parts.event_log = compared_with(recorded.event_log, parts.event_log);
  server_actors all{
    system, {on_end, options.silent}, std::move(parts), plan.from};
  driver.lead = all.lead;
  driver.supervisor = all.supervisor;
  all.guard("replay driver",
            spawn<replay::replay_driver_actor, replay::replay_driver_state>(
              system, placement::scheduled, std::move(driver)));
  return {[lead = all.lead] {
    anon_send(lead, stop_atom_v);
  }};
}

} // namespace troupe::app
