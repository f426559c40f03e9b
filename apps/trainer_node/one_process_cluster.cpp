#include "apps/trainer_node/one_process_cluster.hpp"

#include "actors/runtime/spawning.hpp"
#include "apps/trainer_node/participants.hpp"
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

void add_evaluator(caf::actor_system& system, const computing_parts& computing,
                   const local_server& with, const link_factory& tie = {}) {
  if (!computing.settings.cluster.evaluator.value_or(true))
    return;
  auto parts =
    parts_of(with, [&system, computing](const session_client_actor& session) {
      return make_evaluator(system, computing, session);
    });
  parts.tie = tie;
  connect(system, std::move(parts));
}

double number_or(const std::string& text, double otherwise) {
  return text.empty() ? otherwise : config::parse<double>(text);
}

/// Makes simulated links if the settings ask for any; else null.
link_factory links_of(caf::actor_system& system,
                      const config::simulation_settings& settings,
                      const payload_shape& weights, const compression& packs) {
  auto terms = link_terms_of(settings, weights, packs);
  if (!terms.delays())
    return nullptr;
  return [&system, terms](const local_server& with, const participant& who) {
    return spawn_simulated_link(system, with, who, terms);
  };
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
                   const compression& packs, const local_server& with) {
  for (uint32_t i = 0; i < computing.settings.cluster.workers; ++i) {
    auto its = parts_of_rank(computing, worker_id{i});
    auto parts =
      parts_of(with, [&system, its](const session_client_actor& session) {
        return make_worker(system, its, session);
      });
    parts.packs = packs;
    parts.data = owned_by(its);
    if (parts.data.samples > 0)
      parts.rank = worker_id{i};
    connect(system, std::move(parts));
  }
  add_evaluator(system, computing, with);
}

// A worker has the rank of its machine, so that the draws of a rank are always
// the same.
void start_members(caf::actor_system& system, const computing_parts& computing,
                   const std::shared_ptr<simulation::machine>& machine,
                   const payload_shape& weights, const compression& packs,
                   const local_server& with) {
  const auto& settings = computing.settings;
  auto tie = links_of(system, settings.simulation, weights, packs);
  for (uint32_t i = 0; i < settings.cluster.workers; ++i) {
    worker_id rank{i};
    auto parts = parts_of(
      with, [&system, machine, rank](const session_client_actor& session) {
        return make_worker(system, machine, rank, session);
      });
    parts.rank = rank;
    parts.tie = tie;
    parts.packs = packs;
    parts.data = owned_by(parts_of_rank(computing, rank));
    connect(system, std::move(parts));
  }
  if (machine->network)
    add_evaluator(system, computing, with, tie);
}

} // namespace troupe::app
