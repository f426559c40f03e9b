// The digest of all that training has made, and what must not be saved.

#include "actors/runtime/tensor_payload.hpp"
#include "actors/server/checkpoint_writer.hpp"
#include "actors/weights/snapshot.hpp"
#include "models/storage/best_weights.hpp"
#include "models/storage/checkpoint.hpp"
#include "models/storage/sha256.hpp"
#include "tests/support/scores.hpp"
#include "tests/support/server_fixture.hpp"
#include "tests/support/temporary_folder.hpp"

#include <ATen/ops/arange.h>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

using namespace troupe;
using troupe::testing::scored;
using namespace troupe::test;
using troupe::testing::temporary_folder;

namespace {

/// Two workers and three steps, to the end of the run.
std::unique_ptr<server_fixture> trained(uint32_t shards, bool remote_shards,
                                        const std::string& optimizer,
                                        uint64_t checkpoint_freq) {
  auto out = std::make_unique<server_fixture>();
  out->remote_shards = remote_shards;
  out->settings.cluster.shards = shards;
  out->settings.training.optimizer = optimizer;
  out->settings.training.momentum = optimizer == "sgd" ? 0.9 : 0;
  out->settings.training.max_steps = 3;
  out->settings.checkpoint.checkpoint_freq = checkpoint_freq;
  out->open(2);
  for (int i = 0; i < 3; ++i)
    out->step(0.125f * static_cast<float>(1 + i));
  return out;
}

std::string digest_of(const models::tensor_file& model,
                      const models::tensor_file& optimizer) {
  models::sha256 sum;
  for (const auto* file : {&model, &optimizer})
    for (const auto& tensor : file->tensors())
      sum.update(tensor.bytes);
  return models::to_hex(sum.finish());
}

answer_ptr<std::string> write(actor_fixture& actors,
                              const std::filesystem::path& run,
                              const snapshot& state) {
  auto writer = actors.make<checkpoint_writer_actor, checkpoint_writer_state>(
    checkpoint_writer_parts{run / "checkpoints", 1});
  auto out = actors.ask<std::string>(
    writer, write_atom_v,
    snapshot_ptr{std::make_shared<const snapshot>(state)});
  actors.run();
  return out;
}

/// Two parameters of two numbers, and momentum.
snapshot small(uint64_t step, config::scalar_type dtype) {
  auto layout =
    models::flat_layout::from({{"fc.weight", {2}}, {"fc.bias", {2}}}, dtype);
  auto numbers = [&](double from) {
    return at::arange(from, from + 4, models::to_aten(dtype));
  };
  snapshot out;
  out.manifest.set_step(step);
  out.layout = std::make_shared<const models::flat_layout>(layout);
  out.weights = to_payload(numbers(1));
  out.slots.push_back({"momentum_buffer", to_payload(numbers(5))});
  return out;
}

} // namespace

TEST_CASE("the digest of the state is that of the last checkpoint, whatever "
          "the number of shards") {
  for (std::string optimizer : {"sgd", "adam"}) {
    auto one = trained(1, false, optimizer, 100);
    auto expected = one->summary().state_sha256;
    REQUIRE(expected);
    temporary_folder folder;
    auto name =
      write(one->actors, folder.path(), *one->writer->snapshots.at(0));
    auto saved = models::read_checkpoint(folder / "checkpoints" /
                                         name->get<std::string>());
    CHECK(*expected ==
          digest_of(saved.model, models::read_safetensors(
                                   saved.path / "optimizer.safetensors")));
    for (auto remote_shards : {false, true})
      for (uint32_t shards : {2u, 5u})
        // Saved at the last step already, or not before the end.
        for (uint64_t freq : {3u, 100u}) {
          INFO(optimizer << ", " << shards << " shards, freq " << freq);
          auto many = trained(shards, remote_shards, optimizer, freq);
          CHECK(many->writer->snapshots.size() == 1);
          CHECK(many->summary().state_sha256 == expected);
          CHECK(many->summary().weights_sha256 ==
                one->summary().weights_sha256);
        }
  }
}

TEST_CASE("the digest of the state sees the slots of the optimiser") {
  auto slow = trained(1, false, "sgd", 100);
  server_fixture other;
  other.settings.training.max_steps = 3;
  other.open(2);
  for (int i = 0; i < 3; ++i)
    other.step(0);
  CHECK(other.summary().state_sha256 != slow->summary().state_sha256);
  CHECK(other.summary().state_sha256);
}

TEST_CASE("the digest of the state sees the last bit of a float64") {
  auto first = small(1, config::scalar_type::float64);
  auto second = first;
  auto changed = to_tensor(first.weights).clone();
  changed[3] = std::nextafter(4.0, 5.0);
  second.weights = to_payload(changed);
  auto weights = [](const snapshot& x) {
    return models::weights_sha256({to_tensor(x.weights), {}}, *x.layout);
  };
  CHECK(weights(first) == weights(second)); // Rounded to float32.
  CHECK(state_sha256(first) != state_sha256(second));
  CHECK_FALSE(state_sha256(snapshot{}));
}

TEST_CASE("numbers that are not finite never push out a good checkpoint") {
  auto dtype =
    GENERATE(config::scalar_type::float32, config::scalar_type::float64);
  temporary_folder run;
  actor_fixture actors;
  REQUIRE(write(actors, run.path(), small(10, dtype))->values);
  auto bad = small(20, dtype);
  auto spoilt = to_tensor(bad.weights).clone();
  std::string name;
  SECTION("in the weights") {
    spoilt[2] = std::numeric_limits<double>::infinity();
    bad.weights = to_payload(spoilt);
    name = "fc.bias";
  }
  SECTION("in a slot of the optimiser") {
    spoilt[1] = std::numeric_limits<double>::quiet_NaN();
    bad.slots[0].flat = to_payload(spoilt);
    name = "optim.momentum_buffer.fc.weight";
  }
  auto no = write(actors, run.path(), bad);
  CHECK(no->code() == errc::disk);
  CHECK(text_of(*no->error) ==
        "the training has diverged: at step 20 " + name +
          " has numbers that are not finite; nothing was saved, go on from an "
          "older checkpoint with a smaller --lr");
  bad.best = scored(20, 0.5);
  CHECK(write(actors, run.path(), bad)->code() == errc::disk);
  CHECK_FALSE(models::open_best(run.path(), ""));
  CHECK(models::find_checkpoint(run.path(), {}).manifest.step() == 10);
  CHECK(models::list_checkpoints(run / "checkpoints").size() == 1);
}

TEST_CASE("momentum that overflows into the weights fails the run with one "
          "line, and the older checkpoints stay") {
  temporary_folder run;
  server_fixture play;
  play.settings.training.momentum = 0.9;
  play.settings.checkpoint.checkpoint_freq = 1;
  play.writer.handle =
    play.actors.make<checkpoint_writer_actor, checkpoint_writer_state>(
      checkpoint_writer_parts{run / "checkpoints", 2});
  play.open(1);
  // Each gradient is finite.
  for (int i = 0; i < 10 && play.coordinator->ended.empty(); ++i)
    play.step(1e38f);
  REQUIRE(play.coordinator->ended.size() == 1);
  auto line = play.coordinator->ended[0].line;
  auto steps = play.summary().steps;
  CHECK(steps > 2);
  CHECK(line.find("the training has diverged: at step " +
                  std::to_string(steps) + " conv1.weight has numbers") == 0);
  CHECK(line.find('\n') == std::string::npos);
  CHECK(play.summary().status == "failed");
  auto kept = models::list_checkpoints(run / "checkpoints");
  REQUIRE(kept.size() == 2);
  CHECK(kept.back().step == steps - 1);
  auto last = models::read_checkpoint(kept.back().path);
  for (const auto& tensor : last.model.tensors()) {
    std::vector<float> numbers(tensor.bytes.size() / 4);
    std::memcpy(numbers.data(), tensor.bytes.data(), tensor.bytes.size());
    CHECK(
      std::ranges::all_of(numbers, [](float x) { return std::isfinite(x); }));
  }
}
