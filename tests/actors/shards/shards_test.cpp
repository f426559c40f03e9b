// Several shards that do the work of one: the same answers, the same bits.

#include "actors/runtime/tensor_payload.hpp"
#include "actors/server/checkpoint_writer.hpp"
#include "actors/weights/server_model.hpp"
#include "models/layout/segments.hpp"
#include "tests/support/scores.hpp"
#include "tests/support/server_fixture.hpp"
#include "tests/support/temporary_folder.hpp"

#include <ATen/ops/allclose.h>
#include <ATen/ops/lerp.h>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <limits>

using namespace troupe;
using namespace troupe::test;

namespace {

enum class where { in_one_process, in_processes };

/// Opened with so many shards for two workers.
std::unique_ptr<server_fixture> open_shards(uint32_t shards,
                                            const std::string& optimizer,
                                            where are = where::in_one_process,
                                            double ema_decay = 0) {
  auto out = std::make_unique<server_fixture>();
  out->remote_shards = are == where::in_processes && shards > 1;
  out->settings.cluster.shards = shards;
  out->settings.training.optimizer = optimizer;
  out->settings.training.lr = 0.01;
  out->settings.training.ema_decay = ema_decay;
  if (optimizer == "sgd")
    out->settings.training.momentum = 0.9;
  out->open(2);
  return out;
}

/// A gradient that differs from element to element, one of them as given.
payload gradient_with(uint64_t index, float x, uint64_t seed = 1) {
  payload_buffer memory{{element_type::float32, lenet_size}};
  auto* numbers = reinterpret_cast<float*>(memory.bytes().data());
  std::mt19937_64 random{seed};
  for (uint64_t i = 0; i < lenet_size; ++i)
    numbers[i] = static_cast<float>(random() % 1000) * 1e-3f - 0.5f;
  numbers[index] = x;
  return std::move(memory).seal();
}

void run_step(server_fixture& on, uint64_t seed) {
  for (uint32_t i = 0; i < 2; ++i)
    on.players[worker_id{i}].asks =
      on.push(on.next_header(worker_id{i}), gradient_with(0, 0, seed + i));
  for (uint32_t i = 0; i < 2; ++i)
    on.settle(worker_id{i});
}

payload weights(server_fixture& on) {
  return on.players[worker_id{0}].asks->get<payload>();
}

models::loaded_checkpoint written(server_fixture& from,
                                  const std::filesystem::path& folder) {
  auto writer =
    from.actors.make<checkpoint_writer_actor, checkpoint_writer_state>(
      checkpoint_writer_parts{folder, 3});
  auto name = from.actors.ask<std::string>(writer, write_atom_v,
                                           from.writer->snapshots.at(0));
  from.actors.run();
  return models::read_checkpoint(folder / name->get<std::string>());
}

} // namespace

TEST_CASE("shards own what [placement] gives them, and the lead the rest") {
  config::training_settings settings;
  settings.placement = "conv1=worker,conv2=ps:0,fc1=ps:2,*=ps:1";
  auto layout = models::layout_of(settings, 10);
  auto count_of = [&layout](const std::string& layer) {
    uint64_t out = 0;
    for (const auto& slot : layout.slots())
      if (slot.name.starts_with(layer))
        out += slot.count;
    return out;
  };
  using ranges = std::vector<models::element_range>;
  auto fc1 = count_of("fc1.");
  auto fc2 = count_of("fc2.");
  auto conv = count_of("conv");
  CHECK((cut_parameters(layout, 3) ==
         ranges{{fc2 + fc1, conv}, {0, fc2}, {fc2, fc1}}));
  CHECK((cut_parameters(layout, 1) == ranges{{0, layout.count()}}));
}

TEST_CASE("any number of shards gives the bits of one") {
  auto are = GENERATE(where::in_one_process, where::in_processes);
  for (std::string optimizer : {"sgd", "adam", "adamw", "lamb", "adagrad"}) {
    for (uint32_t shards : {2u, 3u, 7u, 421u}) {
      INFO(optimizer << ", " << shards << " shards");
      auto first = open_shards(1, optimizer);
      auto many = open_shards(shards, optimizer, are);
      for (uint64_t i = 0; i < 3; ++i) {
        run_step(*first, 10 * i);
        run_step(*many, 10 * i);
        REQUIRE(same_bytes(weights(*first), weights(*many)));
      }
    }
  }
}

namespace {

watch_answer watched(server_fixture& on, const watch_request& request) {
  auto out =
    on.actors.ask<watch_header, payload>(on.lead, watch_atom_v, request);
  on.actors.run();
  return out;
}

} // namespace

TEST_CASE("evaluators get the average of the weights, whoever has its parts") {
  at::Tensor expected;
  for (auto [shards, are] : {std::pair{1u, where::in_one_process},
                             std::pair{3u, where::in_one_process},
                             std::pair{3u, where::in_processes}}) {
    INFO(shards << " shards");
    auto on = open_shards(shards, "lamb", are, 0.75);
    on->actors.tell(on->lead, evaluators_atom_v, 1u);
    std::vector<at::Tensor> versions;
    for (uint64_t i = 0; i < 3; ++i) {
      run_step(*on, 10 * i);
      versions.push_back(to_tensor(weights(*on)).clone());
    }
    auto due = watched(*on, {version{0}});
    REQUIRE(due->get<watch_header>().weights == version{2});
    CHECK(due->get<watch_header>().averaged);
    auto average = watched(*on, {version{2}, true});
    REQUIRE(average->values);
    CHECK(average->get<watch_header>().weights == version{2});
    auto found = to_tensor(average->get<payload>()).clone();
    CHECK(at::allclose(found, at::lerp(versions[0], versions[1], 0.25), 1e-5,
                       1e-7));
    CHECK((!expected.defined() || at::equal(found, expected)));
    expected = found;
    CHECK(watched(*on, {version{3}, true})->code() == errc::unknown_member);
    on->actors.tell(on->lead, score_atom_v, testing::scored(2, 0.5));
    CHECK(watched(*on, {version{2}, true})->code() == errc::unknown_member);
  }
}

TEST_CASE(
  "an evaluator that asks while norms are awaited gets what they make") {
  server_fixture on;
  on.remote_shards = true;
  on.settings.cluster.shards = 3;
  on.settings.training.clip_norm = 0.5;
  on.settings.evaluation.eval_freq = 1;
  auto arrived = 0;
  on.event_log = [&arrived](proto::LogEvent& event) {
    arrived += event.has_arrived() ? 1 : 0;
  };
  on.open(1);
  on.step(1);
  auto next = on.actors.ask<release_header, payload>(
    on.link, push_atom_v, on.next_header(worker_id{0}), gradient_with(0, 0));
  while (arrived < 2)
    on.actors.run_one();
  CHECK(next->open()); // The second step is decided on, and not made.
  auto due = watched(on, {version{0}});
  CHECK(due->get<watch_header>().weights == version{2});
  CHECK(same_bytes(due->get<payload>(), next->get<payload>()));
}

TEST_CASE("the best weights are an average if a metric of it says so") {
  auto on = std::make_unique<server_fixture>();
  on->settings.training.ema_decay = 0.5;
  on->settings.checkpoint.best_by = "max(ema/accuracy)";
  on->open(1);
  on->actors.tell(on->lead, evaluators_atom_v, 1u);
  on->step(1);
  on->step(2);
  auto due = watched(*on, {version{0}});
  auto average = watched(*on, {version{2}, true});
  auto found = testing::scored(2, 0.5);
  found.metrics.push_back({"ema/accuracy", 0.75});
  on->actors.tell(on->lead, score_atom_v, found);
  on->actors.run();
  REQUIRE(on->writer->snapshots.size() == 1);
  CHECK(same_bytes(on->writer->snapshots[0]->weights, average->get<payload>()));
  CHECK_FALSE(same_bytes(due->get<payload>(), average->get<payload>()));
}

TEST_CASE("one bad number in any shard's part keeps a gradient out of all") {
  auto are = GENERATE(where::in_one_process, where::in_processes);
  for (uint64_t index : {uint64_t{0}, lenet_size / 2, lenet_size - 1}) {
    INFO("element " << index);
    auto on = open_shards(3, "adam", are);
    run_step(*on, 1);
    auto before = weights(*on);
    auto bad =
      on->push(on->next_header(worker_id{0}),
               gradient_with(index, std::numeric_limits<float>::infinity()));
    CHECK(bad->code() == errc::not_finite);
    auto other = on->push(worker_id{1}, 0.5f);
    CHECK(other->open());
    // Nothing of it was applied anywhere: the next step is as without it.
    auto& one = on->players[worker_id{0}];
    one.asks = on->pull(worker_id{0});
    on->settle(worker_id{0});
    CHECK(same_bytes(one.asks->get<payload>(), before));
    one.asks = on->push(worker_id{0}, 0.25f);
    REQUIRE(one.asks->values);
    auto same = open_shards(1, "adam");
    run_step(*same, 1);
    same->push(worker_id{1}, 0.5f);
    same->push(worker_id{0}, 0.25f);
    CHECK(same_bytes(weights(*on), weights(*same)));
  }
}

TEST_CASE("what shards save is what one saves, and any number goes on") {
  auto are = GENERATE(where::in_one_process, where::in_processes);
  testing::temporary_folder folder;
  std::vector<models::loaded_checkpoint> saved;
  for (uint32_t shards : {1u, 4u}) {
    auto on = std::make_unique<server_fixture>();
    on->remote_shards = are == where::in_processes && shards > 1;
    on->settings.cluster.shards = shards;
    on->settings.training.optimizer = "adam";
    on->settings.checkpoint.checkpoint_freq = 2;
    on->open(2);
    run_step(*on, 1);
    run_step(*on, 2);
    saved.push_back(written(*on, folder / std::to_string(shards)));
    run_step(*on, 3);
  }
  CHECK(saved[0].manifest.optimizer().steps() == 2);
  CHECK(saved[0].manifest.files(0).sha256() ==
        saved[1].manifest.files(0).sha256());
  CHECK(saved[0].manifest.files(1).sha256() ==
        saved[1].manifest.files(1).sha256());
  std::optional<payload> expected;
  for (auto& from : saved) {
    auto shared = std::make_shared<models::loaded_checkpoint>(std::move(from));
    for (uint32_t shards : {1u, 2u, 5u}) {
      server_fixture on;
      on.life = life_number{2};
      on.resumed = shared;
      on.remote_shards = are == where::in_processes && shards > 1;
      on.settings.cluster.shards = shards;
      on.settings.training.optimizer = "adam";
      on.open(2);
      run_step(on, 3);
      if (!expected)
        expected = weights(on);
      CHECK(same_bytes(*expected, weights(on)));
    }
  }
}

// -- fragments ----------------------------------------------------------------

namespace {

std::unique_ptr<server_fixture>
open_fragments(uint32_t shards, const config::training_settings& training,
               std::shared_ptr<models::loaded_checkpoint> from = nullptr) {
  auto out = std::make_unique<server_fixture>();
  out->remote_shards = shards > 1;
  out->settings.cluster.shards = shards;
  out->settings.training = training;
  out->settings.checkpoint.checkpoint_freq = 4;
  out->settings.policy.name = "async";
  out->resumed = from;
  out->life = life_number{from ? 2u : 1u};
  out->open(2);
  return out;
}

config::training_settings in_five(const std::string& optimizer) {
  config::training_settings out;
  out.batch_size = 10;
  out.optimizer = optimizer;
  out.lr = 0.01;
  out.clip_norm = 10;
  out.local_steps.most = 1;
  out.fragments = 5;
  return out;
}

/// The worker pushes its next fragment, and gets that one.
payload exchange_fragment(server_fixture& on, uint32_t rank, uint64_t seed) {
  worker_id who{rank};
  models::fragments cuts{models::layout_of(on.settings.training, 10), 5};
  auto& one = on.players[who];
  auto which = one.asks->get<release_header>().fragment;
  auto range = cuts.all(which);
  one.asks = on.push(on.next_header(who),
                     gradient_with(0, 0, seed).part(range.first, range.count));
  REQUIRE(one.asks->values);
  on.settle(who);
  const auto& header = one.asks->get<release_header>();
  CHECK(header.goes_on);
  CHECK(header.fragment == (which + 1) % 5);
  CHECK(one.asks->get<payload>().shape().count == range.count);
  return one.asks->get<payload>();
}

/// All of the weights, as a worker gets them that has given up its own.
payload pulled(server_fixture& on) {
  worker_id who{1};
  on.players[who].asks = on.pull(who);
  on.settle(who);
  return on.players[who].asks->get<payload>();
}

} // namespace

TEST_CASE("fragments have the same bits with any number of shards") {
  for (std::string optimizer : {"sgd", "adam", "lamb"})
    for (uint32_t shards : {2u, 3u, 7u, 421u}) {
      INFO(optimizer << ", " << shards << " shards");
      auto first = open_fragments(1, in_five(optimizer));
      auto many = open_fragments(shards, in_five(optimizer));
      for (uint32_t i = 0; i < 14; ++i) {
        auto rank = i % 5 == 3 ? 1 : i % 2;
        REQUIRE(same_bytes(exchange_fragment(*first, rank, i),
                           exchange_fragment(*many, rank, i)));
        if (i == 8)
          CHECK(same_bytes(pulled(*first), pulled(*many)));
      }
      CHECK(same_bytes(pulled(*first), pulled(*many)));
    }
}

TEST_CASE("any number of shards goes on with fragments of another number") {
  testing::temporary_folder folder;
  std::vector<models::loaded_checkpoint> saved;
  for (uint32_t shards : {1u, 4u}) {
    auto on = open_fragments(shards, in_five("adam"));
    for (uint32_t i = 0; i < 4; ++i)
      exchange_fragment(*on, i % 3 == 0 ? 1 : 0, i);
    saved.push_back(written(*on, folder / std::to_string(shards)));
  }
  const auto& record = saved[0].manifest.optimizer();
  CHECK((std::vector<uint64_t>(record.fragment_steps().begin(),
                               record.fragment_steps().end()) ==
         std::vector<uint64_t>{2, 2, 0, 0, 0}));
  for (int file : {0, 1})
    CHECK(saved[0].manifest.files(file).sha256() ==
          saved[1].manifest.files(file).sha256());
  std::optional<payload> expected;
  for (auto& from : saved) {
    auto shared = std::make_shared<models::loaded_checkpoint>(std::move(from));
    for (uint32_t shards : {1u, 2u, 5u}) {
      INFO(shards << " shards");
      auto on = open_fragments(shards, in_five("adam"), shared);
      for (uint32_t i = 0; i < 6; ++i)
        exchange_fragment(*on, i % 2, i);
      auto found = pulled(*on);
      if (!expected)
        expected = found;
      CHECK(same_bytes(*expected, found));
    }
  }
}

TEST_CASE("a checkpoint from before the first step has no slots for a shard") {
  auto on = open_shards(1, "adam");
  run_step(*on, 0);
  on->actors.tell(on->lead, stop_atom_v);
  testing::temporary_folder folder;
  auto from =
    std::make_shared<models::loaded_checkpoint>(written(*on, folder.path()));
  auto state_of_one = [&] {
    auto all = make_beginnings(on->settings.training, 10, 2, from, {});
    auto one = all.make(shard_id{1});
    CHECK(one.flat.shape().count ==
          all.ranges.at(0).count * (one.state.with_slots ? 3 : 1));
    return one.state;
  };
  CHECK(state_of_one().with_slots);
  from->manifest.mutable_optimizer()->set_steps(0);
  from->optimizer = {};
  CHECK_FALSE(state_of_one().with_slots);
}

TEST_CASE("a checkpoint of shards in processes is not in memory") {
  auto on = open_shards(3, "adam", where::in_processes);
  run_step(*on, 0);
  on->actors.tell(on->lead, stop_atom_v);
  const auto& what = *on->writer->snapshots.at(0);
  REQUIRE(what.slots.size() == 2);
  CHECK(what.drafts);
  CHECK_FALSE(what.weights);
  for (const auto& slot : what.slots)
    CHECK_FALSE(slot.flat);
}
