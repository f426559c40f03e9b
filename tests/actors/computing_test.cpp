// The compute actor, with a path that sends gradients early and weights that
// are still arriving.

#include "actors/runtime/inline_execution.hpp"
#include "actors/runtime/spawning.hpp"
#include "actors/runtime/tensor_payload.hpp"
#include "actors/worker/computing.hpp"
#include "data/dataset.hpp"

#include <ATen/ops/equal.h>
#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <cstring>
#include <thread>

using namespace troupe;

namespace {

/// Keeps what it is told, and the bytes that were final then.
struct listener : gradient_stream {
  void begin(const payload& what) override { gradient = what; }

  void ready(uint64_t from) override {
    told.push_back(from);
    auto bytes = gradient.bytes().subspan(from);
    seen.emplace_back(bytes.begin(), bytes.end());
  }

  void computed(double s) override { seconds.push_back(s); }

  payload gradient;
  std::vector<uint64_t> told;
  std::vector<std::vector<std::byte>> seen;
  std::vector<double> seconds;
};

struct shop {
  struct two_threads : caf::actor_system_config {
    two_threads() { allow_inline_execution(*this, 2); }
  };

  shop()
    : parts{{}, data::load_dataset({}, 1)},
      engine(parts.settings.training, 10), weights{{element_type::float32,
                                                    engine.layout().count()}} {
    engine.initial_weights(to_tensor(weights), 1);
    compute =
      spawn<compute_actor, compute_state>(system, placement::detached, parts);
  }

  ~shop() { caf::anon_send_exit(compute, caf::exit_reason::user_shutdown); }

  gradient_report run(const payload& from,
                      gradient_stream_ptr early_gradients) {
    compute_task task;
    task.from = {lease_id{1}, 0, 0, 16};
    task.batch = std::make_shared<const data::batch>(
      parts.data.train->gather_range(0, 16, config::scalar_type::float32));
    task.weights = from;
    task.cancel = std::make_shared<std::atomic<bool>>(false);
    task.early_gradients = std::move(early_gradients);
    gradient_report out;
    std::string trouble;
    caf::scoped_actor self{system};
    self->request(compute, std::chrono::seconds(60), compute_atom_v, task)
      .receive([&](const gradient_report& found) { out = found; },
               [&](const caf::error& why) { trouble = caf::to_string(why); });
    CHECK(trouble == "");
    return out;
  }

  bool ready = (init_messages(), true);
  computing_parts parts;
  models::compute_engine engine;
  payload_buffer weights;
  two_threads settings;
  caf::actor_system system{settings};
  compute_actor compute;
};

} // namespace

TEST_CASE("a compute actor tells of a gradient while it makes it") {
  shop it;
  auto weights = std::move(it.weights).seal();
  auto out = std::make_shared<listener>();
  auto found = it.run(weights, out);
  REQUIRE_FALSE(found.cancelled);
  auto all = found.gradient.bytes();
  CHECK(out->gradient.bytes().data() == all.data());
  REQUIRE(out->told.size() > 3);
  CHECK(out->told.back() == 0);
  CHECK(std::ranges::is_sorted(out->told, std::greater{}));
  for (size_t i = 0; i < out->told.size(); ++i)
    CHECK(std::ranges::equal(out->seen[i], all.subspan(out->told[i])));
  CHECK(out->seconds.size() == 1);
}

TEST_CASE("a compute actor begins on weights that are arriving, and says how "
          "long it waited") {
  shop it;
  payload_buffer target{it.weights.shape()};
  auto weights = std::move(it.weights).seal();
  auto expected = it.run(weights, nullptr);
  CHECK(expected.waited == 0);
  auto bytes = weights.bytes();
  auto memory = target.bytes();
  auto progress = std::make_shared<arrival>(bytes.size(), bytes.size());
  std::thread sender{[&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    std::memcpy(memory.data(), bytes.data(), bytes.size());
    progress->reach(bytes.size());
  }};
  auto coming = std::move(target).seal();
  auto found = it.run(
    {coming.shape(), coming.owner(), coming.bytes().data(), progress}, nullptr);
  sender.join();
  CHECK_FALSE(found.cancelled);
  CHECK(found.waited > 0);
  CHECK(std::ranges::equal(found.gradient.bytes(), expected.gradient.bytes()));
  SECTION("those that do not come cancel it") {
    auto never = std::make_shared<arrival>(bytes.size(), 0);
    never->break_off();
    CHECK(it.run({coming.shape(), coming.owner(), coming.bytes().data(), never},
                 nullptr)
            .cancelled);
  }
}

TEST_CASE("a loader has a thread where batches take more than a copy") {
  computing_parts parts{{}, data::load_dataset({}, 1)};
  parts.settings.training.batch_size = 64;
  CHECK_FALSE(loader_has_thread(parts));
  SECTION("of much") {
    parts.settings.training.batch_size = 4096;
    CHECK(loader_has_thread(parts));
  }
  SECTION("with changes at random") {
    config::data_settings data;
    data.augment = "flip";
    parts.data = data::load_dataset(data, 1);
    CHECK(loader_has_thread(parts));
  }
}

TEST_CASE("loaders make the same batch with and without a thread") {
  init_messages();
  caf::actor_system_config plain;
  caf::actor_system system{plain};
  computing_parts parts{{}, data::load_dataset({}, 1)};
  std::vector<at::Tensor> found;
  for (uint64_t batch_size : {64, 4096}) {
    parts.settings.training.batch_size = batch_size;
    auto loader = spawn<loader_actor, loader_state>(
      system,
      loader_has_thread(parts) ? placement::detached : placement::scheduled,
      parts);
    caf::scoped_actor self{system};
    self
      ->request(loader, std::chrono::seconds(60), load_atom_v,
                lease{lease_id{1}, 0, 32, 64})
      .receive(
        [&](const loaded_batch& what) { found.push_back(what.batch->inputs); },
        [](const caf::error& why) { FAIL(caf::to_string(why)); });
    caf::anon_send_exit(loader, caf::exit_reason::user_shutdown);
  }
  REQUIRE(found.size() == 2);
  CHECK((found[0].size(0) == 64));
  CHECK((at::equal(found[0], found[1])));
}
