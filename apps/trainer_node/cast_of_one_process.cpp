#include "apps/trainer_node/cast_of_one_process.hpp"

#include "actors/performers.hpp"
#include "actors/spawning.hpp"
#include "config/text.hpp"
#include "config/value.hpp"

#include <utility>

namespace troupe::app {

namespace {

template <class Make>
local_connector_parts parts_of(const house& with, Make make) {
  local_connector_parts out;
  out.with = with;
  out.make = std::move(make);
  return out;
}

void connect(caf::actor_system& system, local_connector_parts parts) {
  spawn<connector_actor, local_connector_state>(system, placement::scheduled,
                                                std::move(parts));
}

void add_evaluator(caf::actor_system& system, const computing_parts& computing,
                   const house& with,
                   const std::optional<link_terms>& terms = {}) {
  if (!computing.settings.cluster.evaluator.value_or(true))
    return;
  auto parts =
    parts_of(with, [&system, computing](const connector_actor& home) {
      return make_evaluator(system, computing, home);
    });
  parts.terms = terms;
  connect(system, std::move(parts));
}

double number_or(const std::string& text, double otherwise) {
  return text.empty() ? otherwise : config::parse<double>(text);
}

std::optional<link_terms> terms_of(const config::simulation_settings& settings,
                                   const payload_shape& weights,
                                   const packing& packs) {
  auto out = link_terms_of(settings, weights, packs);
  return out.delays() ? std::optional{out} : std::nullopt;
}

} // namespace

link_terms link_terms_of(const config::simulation_settings& settings,
                         const payload_shape& weights, const packing& packs) {
  link_terms out;
  out.latency = number_or(settings.link_latency, out.latency);
  out.rate = number_or(settings.link_rate, out.rate);
  out.tensor_bytes = weights.bytes();
  if (packs.codec)
    out.packed_bytes = packs.codec->packed().bytes();
  return out;
}

void fill_stage(caf::actor_system& system, const computing_parts& computing,
                const packing& packs, const house& with) {
  for (uint32_t i = 0; i < computing.settings.cluster.workers; ++i) {
    auto its = parts_of_rank(computing, worker_id{i});
    auto parts = parts_of(with, [&system, its](const connector_actor& home) {
      return make_worker(system, its, home);
    });
    parts.packs = packs;
    parts.data = owned_by(its);
    if (parts.data.samples > 0)
      parts.rank = worker_id{i};
    connect(system, std::move(parts));
  }
  add_evaluator(system, computing, with);
}

// A worker's rank is its machine's: the draws of a rank are always the same.
void fill_stage(caf::actor_system& system, const computing_parts& computing,
                const std::shared_ptr<simulation::machine>& machine,
                const payload_shape& weights, const packing& packs,
                const house& with) {
  const auto& settings = computing.settings;
  auto terms = terms_of(settings.simulation, weights, packs);
  for (uint32_t i = 0; i < settings.cluster.workers; ++i) {
    worker_id rank{i};
    auto parts =
      parts_of(with, [&system, machine, rank](const connector_actor& home) {
        return make_worker(system, machine, rank, home);
      });
    parts.rank = rank;
    parts.terms = terms;
    parts.packs = packs;
    parts.data = owned_by(parts_of_rank(computing, rank));
    connect(system, std::move(parts));
  }
  if (machine->network)
    add_evaluator(system, computing, with, terms);
}

} // namespace troupe::app
