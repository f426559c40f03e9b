#pragma once
// A parameter server with stand-ins for everybody around it.

#include "actors/parameter_server.hpp"
#include "actors/parameter_shard.hpp"
#include "actors/restore.hpp"
#include "tests/support/doubles.hpp"
#include "tests/support/payloads.hpp"

#include <map>

namespace troupe::test {

using weights_answer = answer_ptr<release_header, payload>;
using watch_answer = answer_ptr<watch_header, payload>;

inline constexpr uint64_t lenet_size = 431'080;

class theatre {
public:
  /// A stand-in for a worker that plays by the rules.
  struct player {
    worker_stand_in handle;
    incarnation life{1};
    sequence last{0};
    std::vector<lease> leases;
    version reads;
    weights_answer asks;
  };

  theatre() {
    settings.training.momentum = 0;
    settings.training.lr = 0.5;
    settings.training.batch_size = 10;
    settings.evaluation.eval_freq = 2;
  }

  /// Opens the house to `workers` workers, which join and pull.
  void open(uint32_t workers) {
    settings.cluster.workers = workers;
    open_empty();
    std::vector<worker_id> who;
    for (uint32_t i = 0; i < workers; ++i) {
      enlist(worker_id{i}, incarnation{1});
      players[worker_id{i}].asks = pull(worker_id{i});
      who.push_back(worker_id{i});
    }
    house.tell(lead, join_atom_v, who);
    for (auto id : who)
      settle(id);
  }

  void open_empty() {
    parameter_server_parts parts;
    parts.settings = settings;
    parts.run_id = "run";
    parts.dataset = "digits";
    parts.samples = samples;
    parts.classes = 10;
    parts.life = life;
    parts.resumed = resumed;
    parts.recorder = recorder.handle;
    parts.writer = writer.handle;
    parts.tape = tape;
    for (auto& model : make_other_shards(parts))
      others.push_back(house.make<shard_actor, parameter_shard_state>(
        parameter_shard_parts{std::move(model)}));
    parts.others = others;
    lead = house.make<lead_actor, parameter_server_state>(std::move(parts));
    house.tell(lead, attach_atom_v, coordinator.handle);
  }

  void enlist(worker_id who, incarnation as) {
    auto& one = players[who];
    one = {};
    one.handle = make_worker_stand_in(house);
    one.life = as;
    house.tell(lead, enlist_atom_v, who, as, std::string{"inproc"},
               one.handle.handle);
  }

  void leave(worker_id who) {
    house.tell(lead, leave_atom_v, who, players.at(who).life,
               std::string{"gone"});
  }

  weights_answer pull(worker_id who) {
    auto out = house.ask<release_header, payload>(
      lead, pull_atom_v,
      pull_header{who, players.at(who).life, life, lease_id{0}});
    house.run();
    return out;
  }

  push_header next_header(worker_id who) {
    auto& one = players.at(who);
    one.last = one.last.next();
    push_header out;
    out.id = {who, one.life, one.last};
    out.server = life;
    out.computed_on = one.reads;
    out.from = one.leases.at(0).id;
    out.samples = one.leases.at(0).count;
    out.loss = 1;
    one.leases.erase(one.leases.begin());
    return out;
  }

  weights_answer push(const push_header& header, const payload& gradient) {
    auto out =
      house.ask<release_header, payload>(lead, push_atom_v, header, gradient);
    house.run();
    return out;
  }

  /// The worker's next gradient, all of its numbers `x`.
  weights_answer push(worker_id who, float x) {
    return players.at(who).asks =
             push(next_header(who), constant_payload(lenet_size, x));
  }

  /// The worker takes the weights that it was given.
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

  stage house;
  config::settings settings;
  uint64_t samples = 1000;
  incarnation life{1};
  std::shared_ptr<const models::loaded_checkpoint> resumed;
  tape_sink tape; ///< Set before the house opens; may be empty.
  recorder_stand_in recorder = make_recorder_stand_in(house);
  writer_stand_in writer = make_writer_stand_in(house);
  coordinator_stand_in coordinator = make_coordinator_stand_in(house);
  lead_actor lead;
  std::vector<shard_actor> others; ///< As many as the settings say.
  std::map<worker_id, player> players;
};

} // namespace troupe::test
