#include "apps/trainer_node/one_process_cluster.hpp"

#include "actors/own_loop/training.hpp"
#include "actors/runtime/spawning.hpp"
#include "apps/trainer_node/participants.hpp"
#include "apps/trainer_node/segment_places.hpp"
#include "config/text/text.hpp"
#include "config/text/value.hpp"

#include <utility>

namespace troupe::app {

namespace {

template <class Make>
local_session_client_parts parts_of(const local_server& with, Make make) {
  local_session_client_parts out;
  out.with = with;
  out.make = std::move(make);
  return out;
}

void connect(caf::actor_system& system, local_session_client_parts parts) {
  spawn<session_client_actor, local_session_client_state>(
    system, placement::scheduled, std::move(parts));
}

double number_or(const std::string& text, double otherwise) {
  return text.empty() ? otherwise : config::parse<double>(text);
}

/// Finds, or makes, what the link of a participant leads to.
using far_end_factory = std::function<far_end(const local_server&)>;

far_end just_the_lead(const local_server& with) {
  return {parameter_server_actor{with.lead}};
}

/// Makes simulated links if the settings ask for any.
void tie_by_simulated_links(caf::actor_system& system, const link_terms& terms,
                            const far_end_factory& find,
                            local_session_client_parts& parts) {
  if (!terms.delays())
    return;
  parts.transport = "simulated";
  parts.tie = [&system, terms, find](const local_server& with,
                                     const participant& who) {
    return spawn_simulated_link(system, find(with), who, terms);
  };
}

/// A remote module in the same process is the link to itself.
void tie_to_modules(const computing_parts& computing,
                    const far_end_factory& find,
                    local_session_client_parts& parts) {
  if (parts.tie || !has_remote_modules(computing))
    return;
  parts.tie = [find](const local_server& with, const participant& who) {
    return made_link{find(with).server, who};
  };
}

void add_evaluator(caf::actor_system& system, const computing_parts& computing,
                   const local_server& with, const link_terms& terms = {}) {
  if (!computing.settings.cluster.evaluator.value_or(true))
    return;
  auto parts =
    parts_of(with, [&system, computing](const session_client_actor& session) {
      return make_evaluator(system, computing, session);
    });
  tie_by_simulated_links(system, terms, just_the_lead, parts);
  connect(system, std::move(parts));
}

} // namespace

link_terms link_terms_of(const config::simulation_settings& settings,
                         const payload_shape& weights,
                         const compression& packs) {
  link_terms out;
  out.latency = number_or(settings.link_latency, out.latency);
  out.rate = number_or(settings.link_rate, out.rate);
  out.tensor_bytes = weights.bytes();
  if (packs.codec)
    out.compressed_bytes = packs.codec->compressed().bytes();
  return out;
}

void start_members(caf::actor_system& system, const computing_parts& computing,
                   const compression& packs, const module_roster_ptr& roster,
                   const local_server& with) {
  auto find = [&system, computing, roster](const local_server& server) {
    return make_far_end(system, computing, server.lead, roster);
  };
  for (uint32_t i = 0; i < computing.settings.cluster.workers; ++i) {
    auto its = parts_of_rank(computing, worker_id{i});
    auto parts =
      parts_of(with, [&system, its](const session_client_actor& session) {
        return make_worker(system, its, session);
      });
    parts.packs = packs;
    parts.awaits_score = remote::registered_training() != nullptr;
    parts.data = owned_by(its);
    if (parts.data.samples > 0)
      parts.rank = worker_id{i};
    tie_to_modules(computing, find, parts);
    connect(system, std::move(parts));
  }
  add_evaluator(system, computing, with);
}

// A worker has the rank of its machine, so that the draws of a rank are always
// the same.
void start_members(caf::actor_system& system, const computing_parts& computing,
                   const std::shared_ptr<simulation::machine>& machine,
                   const payload_shape& weights, const compression& packs,
                   const module_roster_ptr& roster, const local_server& with) {
  const auto& settings = computing.settings;
  auto terms = link_terms_of(settings.simulation, weights, packs);
  for (uint32_t i = 0; i < settings.cluster.workers; ++i) {
    worker_id rank{i};
    auto parts = parts_of(with, [&system, computing, machine,
                                 rank](const session_client_actor& session) {
      return make_worker(system, computing, machine, rank, session);
    });
    parts.rank = rank;
    auto find = [&system, computing, machine, rank,
                 roster](const local_server& server) {
      return make_far_end(system, computing, server.lead, roster, machine,
                          rank);
    };
    tie_by_simulated_links(system, terms, find, parts);
    tie_to_modules(computing, find, parts);
    parts.packs = packs;
    parts.data = owned_by(parts_of_rank(computing, rank));
    connect(system, std::move(parts));
  }
  if (machine->network)
    add_evaluator(system, computing, with, terms);
}

} // namespace troupe::app
