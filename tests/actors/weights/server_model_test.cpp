// What a checkpoint keeps of a parameter server, through the real writer.

#include "actors/runtime/tensor_payload.hpp"
#include "actors/server/checkpoint_writer.hpp"
#include "actors/weights/first_weights.hpp"
#include "config/text/failure.hpp"
#include "tests/support/server_fixture.hpp"
#include "tests/support/temporary_folder.hpp"

#include <ATen/ops/allclose.h>
#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <limits>
#include <optional>
#include <random>

using namespace troupe;
using namespace troupe::test;

namespace {

config::training_settings settings_of(const std::string& optimizer,
                                      const std::string& network = "lenet") {
  config::training_settings out;
  out.network = network;
  out.optimizer = optimizer;
  out.weight_decay = 1e-4;
  return out;
}

/// Arbitrary numbers; NaN at one place, if it is given.
payload gradient_of(const server_model& model, uint64_t seed,
                    std::optional<uint64_t> nan = {}) {
  payload_buffer memory{model.shape()};
  std::mt19937_64 random{seed};
  auto* numbers = reinterpret_cast<float*>(memory.bytes().data());
  for (uint64_t i = 0; i < model.shape().count; ++i)
    numbers[i] = static_cast<float>(random() % 1000) * 1e-3f - 0.5f;
  if (nan)
    numbers[*nan] = std::numeric_limits<float>::quiet_NaN();
  return std::move(memory).seal();
}

shared_work on_threads(size_t count) {
  shared_work out;
  out.across = models::lanes{count};
  return out;
}

/// One step with a gradient that differs from step to step.
void step(server_model& model, uint64_t makes) {
  std::vector<payload> gradients{gradient_of(model, makes)};
  std::vector<double> shares{8};
  auto next = model.next_buffer();
  model.apply(next, {gradients, shares}, {0.1});
  model.publish(version{makes}, next);
}

void save(const server_model& model, snapshot& out) {
  model.save(out);
}

/// Saved with the writer that a run has, and read again.
models::loaded_checkpoint save(const server_model& model, uint64_t step,
                               const std::filesystem::path& folder) {
  actor_fixture actors;
  auto writer = actors.make<checkpoint_writer_actor, checkpoint_writer_state>(
    checkpoint_writer_parts{folder, 3});
  auto what = std::make_shared<snapshot>();
  save(model, *what);
  what->manifest.set_step(step);
  auto written =
    actors.ask<std::string>(writer, write_atom_v, snapshot_ptr{what});
  actors.run();
  REQUIRE(written->values);
  return models::read_checkpoint(folder / written->get<std::string>());
}

} // namespace

TEST_CASE("a checkpoint has what is frozen, and a run takes it from there") {
  testing::temporary_folder folder;
  auto settings = settings_of("adam", "resnet20");
  settings.freeze = "conv1.*,bn1.*,layer?.*";
  server_model model{settings, 10};
  auto frozen = frozen_weights(*make_first_weights(settings, 10));
  model.keep_frozen(frozen);
  CHECK(model.shape().count == 650); // The last layer.
  step(model, 1);
  auto saved = save(model, 1, folder.path());
  CHECK(saved.model.tensors().size() == 116);
  CHECK(saved.optimizer.tensors().size() == 4);
  auto again = frozen_weights(settings, 10, saved);
  CHECK(std::ranges::equal(again.host_bytes(), frozen.host_bytes()));
  server_model resumed{settings, 10, saved};
  CHECK(std::ranges::equal(resumed.newest().host_bytes(),
                           model.newest().host_bytes()));
  settings.freeze.clear();
  CHECK_FALSE(frozen_weights(settings, 10, saved));
}

TEST_CASE("a step is made in place where nobody reads the version before") {
  server_model model{settings_of("sgd"), 10};
  server_model copies{settings_of("sgd"), 10};
  for (uint64_t makes = 1; makes <= 3; ++makes) {
    const auto* before = model.newest().host_bytes().data();
    step(model, makes);
    CHECK(model.newest().host_bytes().data() == before);
    auto reader = copies.newest();
    auto content = to_tensor(reader).clone();
    step(copies, makes);
    CHECK(copies.newest().host_bytes().data() != reader.host_bytes().data());
    CHECK(to_tensor(reader).equal(content));
    CHECK(same_bytes(model.newest(), copies.newest()));
  }
}

TEST_CASE("pushes that came as one tensor weigh what they do apart") {
  auto settings = settings_of("sgd");
  server_model together{settings, 10};
  server_model apart{settings, 10};
  auto same = gradient_of(together, 1);
  auto other = gradient_of(together, 2);
  auto copy = [](const payload& x) {
    payload_buffer out{x.shape()};
    std::ranges::copy(x.host_bytes(), out.bytes().begin());
    return std::move(out).seal();
  };
  std::vector<double> shares{1, 2, 5};
  auto step_of = [&](server_model& on, const std::vector<payload>& gradients) {
    auto next = on.next_buffer();
    on.apply(next, {gradients, shares}, {0.1});
    on.publish(version{1}, next);
    return to_tensor(on.newest()).clone();
  };
  auto found = step_of(together, {same, same, other});
  auto expected = step_of(apart, {same, copy(same), other});
  CHECK((at::allclose(found, expected, 1e-5, 1e-7)));
  // The gradient that comes twice does not count as one.
  shares = {1, 0, 5};
  server_model once{settings, 10};
  CHECK_FALSE((
    at::allclose(found, step_of(once, {same, copy(same), other}), 1e-5, 1e-7)));
}

TEST_CASE("several threads make a step in place, too") {
  server_model model{settings_of("sgd"), 10, heap_memory(), on_threads(2)};
  const auto* before = model.newest().host_bytes().data();
  CHECK(model.next_buffer().const_data_ptr() == before);
}

TEST_CASE("a model that is saved and loaded goes on with the same bits") {
  using pair = std::pair<const char*, const char*>;
  for (auto [name, network] :
       {pair{"sgd", "lenet"}, pair{"adam", "lenet"}, pair{"adamw", "lenet"},
        pair{"sgd", "resnet20"}}) {
    INFO(name << ", " << network);
    testing::temporary_folder folder;
    auto settings = settings_of(name, network);
    server_model model{settings, 10};
    for (uint64_t i = 1; i <= 3; ++i)
      step(model, i);
    auto saved = save(model, 3, folder.path());
    server_model copy{settings, 10, saved};
    CHECK(same_bytes(copy.newest(), model.newest()));
    CHECK(copy.weights_sha256() == model.weights_sha256());
    CHECK(same_bytes(weights_of(saved, settings, 10), model.newest()));
    for (uint64_t i = 4; i <= 6; ++i) {
      step(model, i);
      step(copy, i);
    }
    CHECK(same_bytes(copy.newest(), model.newest()));
  }
}

TEST_CASE("any number of threads makes the step of one") {
  for (auto name : {"sgd", "adam"}) {
    for (auto threads : {2u, 3u, 8u}) {
      INFO(name << ", " << threads << " threads");
      auto settings = settings_of(name, "resnet20");
      server_model one{settings, 10};
      server_model many{settings, 10, heap_memory(), on_threads(threads)};
      std::vector<double> shares{8, 4};
      for (uint64_t makes = 1; makes <= 3; ++makes) {
        std::vector<payload> gradients{gradient_of(one, makes),
                                       gradient_of(one, 100 + makes)};
        for (auto* model : {&one, &many}) {
          auto next = model->next_buffer();
          model->apply(next, {gradients, shares}, {0.1});
          model->publish(version{makes}, next);
        }
        CHECK(same_bytes(many.newest(), one.newest()));
      }
      snapshot first;
      snapshot second;
      save(one, first);
      save(many, second);
      CHECK(same_bytes(first.slots.at(0).flat, second.slots.at(0).flat));
    }
  }
}

TEST_CASE("statistics may be infinite where they were from the beginning") {
  testing::temporary_folder folder;
  auto settings = settings_of("sgd", "resnet20");
  auto first = models::draw_weights(settings, 10).trained;
  auto last = static_cast<uint64_t>(first.numel()) - 1;
  first[-1] = std::numeric_limits<float>::infinity();
  server_model model{settings, 10, heap_memory(), {}, first};
  auto gradient = gradient_of(model, 1, last);
  CHECK(model.look_at(gradient).is_sound);
  gradient.know_finite(false); // A path judges all of it.
  CHECK(model.look_at(gradient).is_sound);
  CHECK_FALSE(model.look_at(gradient_of(model, 1, last - 1)).is_sound);
  CHECK_FALSE(model.look_at(gradient_of(model, 1, 0)).is_sound);
  CHECK_NOTHROW(save(model, 1, folder.path()));
  step(model, 1);
  CHECK_FALSE(
    model.look_at(gradient).is_sound); // The last statistic is finite now.
}

TEST_CASE("a gradient whose statistics are not finite is not sound") {
  for (uint32_t threads : {1u, 3u}) {
    server_model model{settings_of("sgd", "resnet20"), 10, heap_memory(),
                       on_threads(threads)};
    CHECK(model.look_at(gradient_of(model, 1)).is_sound);
    auto last = model.shape().count - 1;
    CHECK_FALSE(model.look_at(gradient_of(model, 1, last)).is_sound);
  }
}

namespace {

/// A step with these gradients, as the parameter server makes it.
void step_as_server(server_model& model, uint64_t makes,
                    std::vector<payload> gradients,
                    const std::vector<uint32_t>& fragments = {}) {
  std::vector<double> shares(gradients.size(), 8);
  step_terms with{0.1};
  mean_of mean{gradients, shares, fragments};
  if (model.has_factors())
    with.factors = model.factors_of(model.measure(mean, with.scale));
  model.step(version{makes}, std::move(gradients), shares, with, fragments);
}

/// A step with these fragments of one gradient.
void step_fragments(server_model& model, uint64_t makes, const payload& whole,
                    const std::vector<uint32_t>& which) {
  models::fragments cuts{*model.layout(), 3};
  std::vector<payload> gradients;
  for (auto k : which) {
    auto range = cuts.all(k);
    gradients.push_back(whole.part(range.first, range.count));
    REQUIRE(model.fits(gradients.back(), k));
    REQUIRE(model.look_at(gradients.back(), k).is_sound);
  }
  step_as_server(model, makes, std::move(gradients), which);
}

config::training_settings in_three(config::training_settings of) {
  of.fragments = 3;
  return of;
}

} // namespace

TEST_CASE("a step of all fragments is a step of the whole") {
  for (const auto* network : {"lenet", "resnet20"})
    for (const auto* optimizer : {"sgd", "adam", "lamb"}) {
      INFO(network << ", " << optimizer);
      auto settings = settings_of(optimizer, network);
      server_model whole{settings, 10};
      server_model parts{in_three(settings), 10};
      for (uint64_t makes = 1; makes <= 3; ++makes) {
        auto gradient = gradient_of(whole, makes);
        auto reader = makes == 2 ? parts.newest() : payload{};
        step_as_server(whole, makes, {gradient});
        step_fragments(parts, makes, gradient, {0, 1, 2});
        CHECK(same_bytes(whole.newest(), parts.newest()));
      }
    }
}

TEST_CASE(
  "fragments without a gradient stay as they are, also after a resume") {
  testing::temporary_folder folder;
  auto settings = in_three(settings_of("adam", "resnet20"));
  server_model model{settings, 10};
  models::fragments cuts{*model.layout(), 3};
  auto numbers_of = [&](uint32_t k) {
    return to_tensor(model.released((k + 1) % 3, true));
  };
  const std::vector<std::vector<uint32_t>> plan{{0}, {1, 0}, {2}, {0, 0}};
  uint64_t makes = 0;
  for (const auto& which : plan) {
    std::vector<at::Tensor> before{numbers_of(0).clone(), numbers_of(1).clone(),
                                   numbers_of(2).clone()};
    auto reader = makes % 2 == 0 ? model.newest() : payload{};
    ++makes;
    step_fragments(model, makes, gradient_of(model, makes), which);
    for (uint32_t k = 0; k < 3; ++k)
      CHECK(numbers_of(k).equal(before[k]) ==
            (std::ranges::count(which, k) == 0));
  }
  auto saved = save(model, makes, folder.path());
  const auto& record = saved.manifest.optimizer();
  CHECK(record.steps() == 3);
  CHECK((std::vector<uint64_t>(record.fragment_steps().begin(),
                               record.fragment_steps().end()) ==
         std::vector<uint64_t>{3, 1, 1}));
  server_model resumed{settings, 10, saved};
  for (const auto& which : plan) {
    auto gradient = gradient_of(model, ++makes);
    step_fragments(model, makes, gradient, which);
    step_fragments(resumed, makes, gradient, which);
    CHECK(same_bytes(model.newest(), resumed.newest()));
  }
}

TEST_CASE("a gradient of another fragment does not fit, nor NaN") {
  server_model model{in_three(settings_of("sgd", "resnet20")), 10};
  models::fragments cuts{*model.layout(), 3};
  auto whole = gradient_of(model, 1, cuts.all(2).end() - 1); // A statistic.
  auto part = [&](uint32_t k) {
    return whole.part(cuts.all(k).first, cuts.all(k).count);
  };
  CHECK_FALSE(model.fits(whole, 0));
  CHECK_FALSE(model.fits(part(1), 0));
  CHECK(model.look_at(part(0), 0).is_sound);
  CHECK_FALSE(model.look_at(part(2), 2).is_sound);
}

TEST_CASE("a snapshot does not change with the model") {
  server_model model{settings_of("sgd"), 10};
  step(model, 1);
  snapshot before;
  save(model, before);
  auto weights = before.weights.host_bytes();
  std::vector<std::byte> copy{weights.begin(), weights.end()};
  auto slot = before.slots.at(0).flat.host_bytes();
  std::vector<std::byte> slot_copy{slot.begin(), slot.end()};
  step(model, 2);
  step(model, 3);
  CHECK(std::ranges::equal(weights, copy));
  CHECK(std::ranges::equal(slot, slot_copy));
}

TEST_CASE("a checkpoint of another optimiser or network is refused") {
  testing::temporary_folder folder;
  server_model model{settings_of("adam"), 10};
  step(model, 1);
  auto saved = save(model, 1, folder.path());
  CHECK_THROWS_AS((server_model{settings_of("sgd"), 10, saved}), run_error);
  CHECK_THROWS_AS((server_model{settings_of("adam"), 7, saved}), run_error);
}

TEST_CASE("a server that is resumed goes on at its version, in a new life") {
  testing::temporary_folder folder;
  auto checkpoint = std::make_shared<models::loaded_checkpoint>();
  {
    server_fixture before;
    before.samples = 100;
    before.settings.checkpoint.checkpoint_freq = 3;
    before.open(2);
    for (int i = 0; i < 3; ++i)
      before.step(0.1f);
    auto writer =
      before.actors.make<checkpoint_writer_actor, checkpoint_writer_state>(
        checkpoint_writer_parts{folder.path(), 3});
    auto written = before.actors.ask<std::string>(
      writer, write_atom_v, before.writer->snapshots.at(0));
    before.actors.run();
    *checkpoint = models::read_checkpoint(folder / written->get<std::string>());
  }
  server_fixture after;
  after.samples = 100;
  after.life = life_number{2};
  after.resumed = checkpoint;
  after.open(2);
  CHECK(checkpoint.use_count() == 2); // The server needs its memory no more.
  const auto& one = after.players[worker_id{0}];
  CHECK(one.reads == version{3});
  CHECK(one.asks->get<release_header>().server == life_number{2});
  // 60 of the first epoch's samples are in the weights.
  CHECK(one.leases.at(0).epoch == 0);
  CHECK(one.leases.at(0).first == 60);
  CHECK(same_bytes(one.asks->get<payload>(),
                   weights_of(*checkpoint, after.settings.training, 10)));
  after.step();
  CHECK(one.reads == version{4});
  CHECK(after.recorder->of<notes::resumed>().size() == 1);
}
