#include "apps/lab/virtual_members.hpp"

#include "actors/runtime/spawning.hpp"
#include "actors/worker/worker.hpp"
#include "apps/lab/simulation/simulated_stage.hpp"
#include "apps/trainer_node/one_process_cluster.hpp"
#include "config/text/value.hpp"

#include <algorithm>
#include <string>
#include <utility>

namespace troupe::app {

namespace {

double number_or(const std::string& text, double otherwise) {
  return text.empty() ? otherwise : config::parse<double>(text);
}

/// Stages whose passes take virtual time.
stage_factory make_virtual_stages(const virtual_members& all, worker_id who) {
  const auto& plan = *all.computing.plan;
  auto passes = plan.segments.size() *
                (all.settings().training.batch_size / plan.micro_batch_size);
  auto share = 1.0 / static_cast<double>(std::max<size_t>(passes, 1));
  auto stage = make_stages(all.system, all.computing);
  return [&system = all.system, stage, machine = all.machine, who,
          share](const stage_place& where) {
    return simulation::spawn_simulated_stage(
      system, {stage(where), machine, who, share});
  };
}

/// Makes simulated links if the settings ask for any.
void tie_by_simulated_links(const virtual_members& all,
                            const far_end_factory& find,
                            local_session_client_parts& parts) {
  auto terms = link_terms_of(all);
  if (!terms.delays())
    return;
  parts.transport = "simulated";
  parts.tie = [&system = all.system, terms, find](const local_server& with,
                                                  const participant& who) {
    return spawn_simulated_link(system, find(with), who, terms);
  };
}

} // namespace

link_terms link_terms_of(const virtual_members& all) {
  const auto& settings = all.settings().simulation;
  link_terms out;
  out.latency = number_or(settings.link_latency, out.latency);
  out.rate = number_or(settings.link_rate, out.rate);
  out.tensor_bytes = all.weights.bytes();
  out.fragments = all.settings().training.fragments;
  if (all.packs.codec)
    out.compressed_bytes = all.packs.codec->compressed().bytes();
  return out;
}

bool has_evaluator(const virtual_members& all) {
  return all.machine->network &&
         all.settings().cluster.evaluator.value_or(true);
}

worker_actor make_worker(const virtual_members& all, worker_id who,
                         const session_client_actor& session) {
  worker_parts parts;
  parts.session = session;
  if (all.computing.plan) {
    auto its = all;
    its.computing = parts_of_rank(all.computing, who);
    parts.compute =
      make_chain(all.system, its.computing, make_virtual_stages(its, who));
    parts.loader = spawn<loader_actor, loader_state>(
      all.system, placement::scheduled, its.computing);
  } else {
    parts.local_steps = all.settings().training.local_steps.most;
    parts.overlap_steps = all.settings().training.overlap_steps;
    std::unique_ptr<local_round> round;
    if (all.machine->network)
      parts.inner = make_inner_state(all.computing);
    if (parts.inner)
      round = std::make_unique<local_round>(
        all.computing, all.machine->network->layout(), parts.inner);
    auto its_own =
      simulation::spawn_machine(all.system, all.machine, who, std::move(round));
    parts.compute = its_own;
    parts.loader = its_own;
  }
  return spawn<worker_actor, worker_state>(all.system, placement::scheduled,
                                           std::move(parts));
}

far_end make_far_end(const virtual_members& all, const lead_actor& server,
                     worker_id who) {
  if (!has_remote_modules(all.computing))
    return {parameter_server_actor{server}};
  return make_far_end(all.system, all.computing, server, all.modules,
                      make_virtual_stages(all, who));
}

void start_members(const virtual_members& all, const local_server& with) {
  for (uint32_t i = 0; i < all.settings().cluster.workers; ++i) {
    worker_id rank{i};
    auto find = [all, rank](const local_server& server) {
      return make_far_end(all, server.lead, rank);
    };
    local_session_client_parts parts;
    parts.with = with;
    parts.make = [all, rank](const session_client_actor& session) {
      return make_worker(all, rank, session);
    };
    parts.rank = rank;
    parts.packs = all.packs;
    parts.data = owned_by(parts_of_rank(all.computing, rank));
    parts.leases = cores::leases_for(all.settings().training.local_steps.most,
                                     all.settings().training.overlap_steps);
    tie_by_simulated_links(all, find, parts);
    tie_to_modules(all.computing, find, parts);
    connect(all.system, std::move(parts));
  }
  if (!has_evaluator(all))
    return;
  auto parts = evaluator_of(all.system, all.computing, with);
  tie_by_simulated_links(
    all,
    [](const local_server& server) {
      return far_end{parameter_server_actor{server.lead}};
    },
    parts);
  connect(all.system, std::move(parts));
}

} // namespace troupe::app
