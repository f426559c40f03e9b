// The compute actor, with a path that sends gradients early, weights that are
// still arriving, and as one of several replicas.

#include "actors/runtime/inline_execution.hpp"
#include "actors/runtime/spawning.hpp"
#include "actors/runtime/tensor_payload.hpp"
#include "actors/worker/computing.hpp"
#include "data/dataset.hpp"

#include <ATen/ops/allclose.h>
#include <ATen/ops/equal.h>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <thread>

using namespace troupe;

namespace {

/// Keeps what it is told, and the bytes that were final then.
struct listener : gradient_stream {
  void begin(const payload& tensor) override { gradient = tensor; }

  void ready(uint64_t from) override {
    told.push_back(from);
    auto bytes = gradient.host_bytes().subspan(from);
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

  /// @param beside Replicas beside the first.
  explicit shop(size_t beside = 0)
    : parts{{}, data::load_dataset({}, 1)},
      engine(parts.settings.training, 10), weights{{element_type::float32,
                                                    engine.layout().count()}} {
    engine.initial_weights(to_tensor(weights), 1);
    for (size_t k = 0; k < beside; ++k)
      others.push_back(spawn<compute_actor, compute_state>(
        system, placement::detached, parts));
    compute = spawn<compute_actor, compute_state>(system, placement::detached,
                                                  parts, others);
  }

  ~shop() { caf::anon_send_exit(compute, caf::exit_reason::user_shutdown); }

  compute_task task_on(const payload& from) const {
    compute_task task;
    task.from = {lease_id{1}, 0, 0, 16};
    task.batch = std::make_shared<const data::batch>(
      parts.data.train->gather_range(0, 16, config::scalar_type::float32));
    task.weights = from;
    task.cancel = std::make_shared<std::atomic<bool>>(false);
    return task;
  }

  gradient_report run(const payload& from,
                      gradient_stream_ptr early_gradients) {
    auto task = task_on(from);
    task.way.early = std::move(early_gradients);
    std::string trouble;
    auto out = run(task, trouble);
    CHECK(trouble == "");
    return out;
  }

  gradient_report run(const compute_task& task, std::string& trouble) {
    gradient_report out;
    caf::scoped_actor self{system};
    self->request(compute, std::chrono::seconds(60), compute_atom_v, task)
      .receive([&](const gradient_report& found) { out = found; },
               [&](const caf::error& why) { trouble = caf::to_string(why); });
    return out;
  }

  bool ready = (init_messages(), true);
  computing_parts parts;
  models::compute_engine engine;
  payload_buffer weights;
  two_threads settings;
  caf::actor_system system{settings};
  std::vector<compute_actor> others;
  compute_actor compute;
};

} // namespace

TEST_CASE("a compute actor tells of a gradient while it makes it") {
  shop it;
  auto weights = std::move(it.weights).seal();
  auto out = std::make_shared<listener>();
  auto found = it.run(weights, out);
  REQUIRE_FALSE(found.cancelled);
  auto all = found.gradient.host_bytes();
  CHECK(out->gradient.host_bytes().data() == all.data());
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
  auto bytes = weights.host_bytes();
  auto memory = target.bytes();
  auto progress = std::make_shared<arrival>(bytes.size(), bytes.size());
  std::thread sender{[&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    std::memcpy(memory.data(), bytes.data(), bytes.size());
    progress->reach(bytes.size());
  }};
  auto coming = std::move(target).seal();
  auto found = it.run(
    {coming.shape(), coming.owner(), coming.host_bytes().data(), progress},
    nullptr);
  sender.join();
  CHECK_FALSE(found.cancelled);
  CHECK(found.waited > 0);
  CHECK(std::ranges::equal(found.gradient.host_bytes(),
                           expected.gradient.host_bytes()));
  SECTION("those that do not come cancel it") {
    auto never = std::make_shared<arrival>(bytes.size(), 0);
    never->break_off();
    CHECK(it.run({coming.shape(), coming.owner(), coming.host_bytes().data(),
                  never},
                 nullptr)
            .cancelled);
  }
}

TEST_CASE(
  "replicas make one gradient, which is not sent before it is the sum") {
  shop alone;
  auto weights = std::move(alone.weights).seal();
  auto expected = alone.run(weights, nullptr);
  for (size_t beside : {1, 2, 15, 20}) {
    INFO(beside);
    shop it{beside};
    auto early = std::make_shared<listener>();
    auto found = it.run(weights, early);
    CHECK(found.samples == 16);
    CHECK(std::abs(found.loss - expected.loss) < 1e-5);
    CHECK(at::allclose(to_tensor(found.gradient), to_tensor(expected.gradient),
                       1e-4, 1e-6));
    CHECK(early->told.empty());
    // In the order of the parts, whoever was first.
    auto again = it.run(weights, nullptr);
    CHECK(at::equal(to_tensor(again.gradient), to_tensor(found.gradient)));
  }
}

TEST_CASE("replicas cancel and fail as one, and are there for the next batch") {
  shop it{2};
  auto weights = std::move(it.weights).seal();
  std::string trouble;
  auto cancelled = it.task_on(weights);
  *cancelled.cancel = true;
  CHECK(it.run(cancelled, trouble).cancelled);
  CHECK(trouble == "");
  // A class that the network does not have, in the last replica's part.
  auto bad = it.task_on(weights);
  auto targets = bad.batch->targets.clone();
  targets[15] = 77;
  bad.batch = std::make_shared<const data::batch>(
    data::batch{bad.batch->inputs, targets, 16});
  it.run(bad, trouble);
  CHECK(trouble.find("out of bounds") != std::string::npos);
  CHECK(it.run(weights, nullptr).samples == 16);
}

TEST_CASE("replicas end with the first") {
  shop it{2};
  caf::scoped_actor self{it.system};
  auto by_message = GENERATE(true, false);
  for (const auto& other : it.others)
    self->monitor(other);
  it.others.clear();
  if (by_message)
    self->send(it.compute, ended_atom_v, run_end{});
  else
    self->send_exit(it.compute, caf::exit_reason::user_shutdown);
  for (int left = 2; left > 0; --left) {
    auto ended = false;
    self->receive([&](const caf::down_msg&) { ended = true; },
                  caf::after(std::chrono::seconds(60)) >> [] {});
    CHECK(ended);
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
        [&](const loaded_batch& batch) {
          found.push_back(batch.batch->inputs);
        },
        [](const caf::error& why) { FAIL(caf::to_string(why)); });
    caf::anon_send_exit(loader, caf::exit_reason::user_shutdown);
  }
  REQUIRE(found.size() == 2);
  CHECK((found[0].size(0) == 64));
  CHECK((at::equal(found[0], found[1])));
}
