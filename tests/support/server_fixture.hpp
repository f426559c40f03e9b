#pragma once
// A parameter server with doubles of all actors around it. Owned by a test,
// driven by its actor_fixture on the test's thread.

#include "actors/links/joined_link.hpp"
#include "actors/links/local_link.hpp"
#include "actors/server/parameter_server.hpp"
#include "actors/server/restore.hpp"
#include "actors/shards/remote_shard.hpp"
#include "actors/shards/shard_registrar.hpp"
#include "models/layout/fragments.hpp"
#include "tests/support/doubles.hpp"
#include "tests/support/payloads.hpp"
#include "tests/support/temporary_folder.hpp"

#include <map>

namespace troupe::test {

using weights_answer = answer_ptr<release_header, payload>;
using watch_answer = answer_ptr<watch_header, payload>;

inline constexpr uint64_t lenet_size = 431'080;

class server_fixture {
public:
  /// The double of a worker that keeps to the protocol.
  struct player {
    worker_stand_in handle;
    life_number life{1};
    sequence last{0};
    sequence requests{0};
    std::vector<lease> leases;
    version reads;
    weights_answer asks;
    parameter_server_actor link; ///< Its own, or null.
  };

  server_fixture() {
    settings.training.momentum = 0;
    settings.training.lr = 0.5;
    settings.training.batch_size = 10;
    settings.evaluation.eval_freq = 2;
  }

  /// Starts the server with `workers` workers, which join and pull.
  void open(uint32_t workers) {
    settings.cluster.workers = workers;
    open_empty();
    std::vector<worker_id> who;
    for (uint32_t i = 0; i < workers; ++i) {
      enlist(worker_id{i}, life_number{1});
      players[worker_id{i}].asks = pull(worker_id{i});
      who.push_back(worker_id{i});
    }
    actors.tell(lead, join_atom_v, who);
    for (auto id : who)
      settle(id);
  }

  /// What the server is made of.
  parameter_server_parts parts() {
    parameter_server_parts out;
    out.settings = settings;
    out.description.run_id = "run";
    out.description.life = life.value;
    out.data = {"digits", samples, 10};
    out.from.resumed = resumed;
    out.from.best = best;
    out.checkpoints = folder.path();
    out.recorder = recorder.handle;
    out.writer = writer.handle;
    out.event_log = event_log;
    out.memory = memory;
    out.notes = notes;
    if (remote_shards) {
      out.settings.what = config::role::ps;
      out.settings.cluster.rank = 0;
    } else {
      out.across = models::lanes{settings.cluster.shards};
    }
    return out;
  }

  void open_empty() {
    lead = actors.make<lead_actor, parameter_server_state>(parts());
    if (remote_shards)
      bring_shards(parts());
    else
      link = lead;
    actors.tell(lead, coordinator_atom_v, coordinator.handle);
  }

  /// Registers the remote shards, as processes of their own would.
  void bring_shards(parameter_server_parts parts) {
    if (!resumed)
      parts.from.first = make_first_weights(settings.training, 10);
    auto beginnings = make_beginnings(parts);
    const auto& ranges = beginnings.ranges;
    auto layout = models::layout_of(parts.settings.training, 10);
    auto lead_count = layout.count();
    auto fragments_in = [&](uint64_t first,
                            uint64_t count) -> std::vector<uint64_t> {
      auto all = settings.training.fragments;
      if (all == 1)
        return {};
      return models::fragments{layout, all}.within({first, count}).sizes();
    };
    registrar = actors.make<shard_registrar_actor, shard_registrar_state>(
      shard_registrar_parts{lead, beginnings, roster, 0});
    for (uint32_t k = 1; k <= ranges.size(); ++k) {
      remote_shard_parts shard;
      shard.rank = shard_id{k};
      shard.settings = parts.settings.training;
      const auto& range = ranges[k - 1];
      shard.weights = {element_type::float32, range.count};
      shard.fragments = fragments_in(range.first, range.count);
      shard.registrar = registrar;
      shard.on_end = [this](const run_end& how) {
        ends.push_back(how);
      };
      remote.push_back(
        actors.make<remote_shard_actor, remote_shard_state>(shard));
      actors.tell(registrar, register_atom_v, shard.rank,
                  std::string{"localhost"}, static_cast<uint16_t>(k),
                  remote.back());
      joined.parts.push_back(
        {remote.back(), shard.weights.count, shard.fragments});
      part_sizes.push_back(shard.weights.count);
      lead_count -= shard.weights.count;
    }
    joined.parts.push_back(
      {lead, lead_count,
       fragments_in(layout.count() - lead_count, lead_count)});
    link = join();
  }

  /// A link to all shards.
  parameter_server_actor join() {
    auto parts = joined;
    for (auto& part : parts.parts)
      part.link = spawn_local_link(actors.system(), part.link);
    return parameter_server_actor{
      actors.make<readable_module_actor, joined_link_state>(parts)};
  }

  /// Where fragments are exchanged, a link knows the worker's turn.
  const parameter_server_actor& link_of(worker_id who) {
    if (!remote_shards || settings.training.fragments == 1)
      return link;
    auto& its = players.at(who).link;
    if (!its)
      its = join();
    return its;
  }

  void enlist(worker_id who, life_number as) {
    auto& one = players[who];
    one = {};
    one.handle = make_worker_stand_in(actors);
    one.life = as;
    registration_request wish;
    wish.transport = "inproc";
    actors.tell(lead, enlist_atom_v, who, as, wish, one.handle.handle);
  }

  void leave(worker_id who) {
    actors.tell(lead, leave_atom_v, who, players.at(who).life,
                std::string{"gone"});
  }

  weights_answer pull(worker_id who) {
    auto& one = players.at(who);
    one.requests = one.requests.next();
    auto out = actors.ask<release_header, payload>(
      link_of(who), pull_atom_v,
      pull_header{who, one.life, life, lease_id{0}, one.requests});
    actors.run();
    return out;
  }

  push_header next_header(worker_id who) {
    auto& one = players.at(who);
    one.last = one.last.next();
    one.requests = one.requests.next();
    push_header out;
    out.id = {who, one.life, one.last};
    out.server = life;
    out.computed_on = one.reads;
    out.from = one.leases.at(0).id;
    out.samples = one.leases.at(0).count;
    out.loss = 1;
    out.request = one.requests;
    one.leases.erase(one.leases.begin());
    return out;
  }

  weights_answer push(const push_header& header, const payload& gradient) {
    auto out = actors.ask<release_header, payload>(
      link_of(header.id.worker), push_atom_v, header, gradient);
    actors.run();
    return out;
  }

  /// Pushes the worker's next gradient, whose numbers are all `x`.
  weights_answer push(worker_id who, float x) {
    return players.at(who).asks =
             push(next_header(who), constant_payload(lenet_size, x));
  }

  /// The worker takes over the weights and leases of its last answer.
  void settle(worker_id who) {
    auto& one = players.at(who);
    const auto& header = one.asks->get<release_header>();
    one.reads = header.weights;
    one.leases.insert(one.leases.end(), header.leases.begin(),
                      header.leases.end());
  }

  /// One step of all workers.
  void step(float x = 0) {
    for (const auto& [who, one] : players)
      push(who, x);
    for (const auto& [who, one] : players)
      if (one.asks->values)
        settle(who);
  }

  recording::summary summary() const {
    return std::get<notes::finished>(recorder->finished.at(0)->what).summary;
  }

  testing::temporary_folder folder; ///< For checkpoints.
  actor_fixture actors;
  config::settings settings;
  uint64_t samples = 1000;
  life_number life{1};
  std::shared_ptr<const models::loaded_checkpoint> resumed;
  std::optional<models::best_score> best; ///< That is on disk already.
  event_sink event_log;                   ///< Set before `open`; may be empty.
  payload_memory_ptr memory = heap_memory(); ///< For versions; likewise.
  recording::note_window notes{};            ///< Of the recorder; likewise.
  recorder_stand_in recorder = make_recorder_stand_in(actors);
  writer_stand_in writer = make_writer_stand_in(actors);
  coordinator_stand_in coordinator = make_coordinator_stand_in(actors);
  bool remote_shards = false; ///< Whether the other shards are remote.
  lead_actor lead;
  parameter_server_actor link; ///< The server as workers see it.

  // With remote shards:
  shard_registrar_actor registrar;
  std::shared_ptr<shard_roster> roster = std::make_shared<shard_roster>();
  joined_link_parts joined; ///< The shards themselves, the lead last.
  std::vector<remote_shard_actor> remote;
  std::vector<uint64_t> part_sizes; ///< Elements.
  std::vector<run_end> ends;        ///< What each shard was told.

  std::map<worker_id, player> players;
};

} // namespace troupe::test
