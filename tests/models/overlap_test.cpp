// Gradients that are reported while backward computes them, and forward on
// weights that are still arriving.

#include "messages/arrival.hpp"
#include "models/engine/compute.hpp"

#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <ATen/record_function.h>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <future>
#include <thread>
#include <utility>
#include <vector>

using namespace troupe;
using namespace troupe::models;

namespace {

struct workplace {
  explicit workplace(const std::string& network, uint64_t parts = 1)
    : engine(settings(network, parts), 10), weights(flat()), gradient(flat()),
      inputs(network == "lenet" ? at::randn({8, 1, 28, 28})
                                : at::randn({8, 3, 32, 32})),
      targets(at::randint(10, {8}, at::kLong)) {
    engine.initial_weights(weights, 1);
  }

  static config::training_settings settings(const std::string& network,
                                            uint64_t parts) {
    config::training_settings out;
    out.network = network;
    if (parts > 1)
      out.micro_batch_size = 8 / parts;
    return out;
  }

  at::Tensor flat() const {
    return at::zeros({static_cast<int64_t>(engine.layout().count())});
  }

  gradient_result run(const batch_context& about = {}) {
    gradient.fill_(-1);
    return engine.run(weights, inputs, targets, gradient, about);
  }

  compute_engine engine;
  at::Tensor weights, gradient, inputs, targets;
};

weights_wait waits_on(const arrival_ptr& progress) {
  return [progress](uint64_t first, uint64_t last) {
    return progress->wait_for(first, last);
  };
}

} // namespace

TEST_CASE("what a gradient is said to have stays as it is") {
  auto [network, parts] =
    GENERATE(std::pair{"lenet", 1}, std::pair{"lenet", 4},
             std::pair{"resnet20", 1}, std::pair{"resnet20", 2});
  INFO(network << " in " << parts << " parts");
  workplace at{network, static_cast<uint64_t>(parts)};
  at.run();
  auto expected = at.gradient.clone();
  std::vector<int64_t> told;
  batch_context about;
  about.ready = [&](uint64_t first) {
    auto from = static_cast<int64_t>(first);
    CHECK((told.empty() || from < told.back() || from == 0));
    told.push_back(from);
    CHECK(at.gradient.slice(0, from).equal(expected.slice(0, from)));
  };
  at.run(about);
  CHECK(told.back() == 0);
  CHECK(told.size() > 3); // One at a time, not all at the end.
  CHECK(told.front() > 0);
}

TEST_CASE("forward goes as far as its weights have come") {
  auto network = GENERATE("lenet", "resnet20", "vgg11_cifar");
  INFO(network);
  workplace at{network};
  at.run();
  auto expected = at.gradient.clone();
  auto whole = at.weights;
  auto bytes = at.engine.layout().bytes();
  auto start = 4 * at.engine.layout().parameter_count();
  // The weights come in a thousand steps, into memory that holds none of them
  // yet.
  at.weights = at.flat().fill_(std::numeric_limits<float>::quiet_NaN());
  auto progress = std::make_shared<arrival>(bytes, start);
  std::thread sender{[&] {
    auto* to = static_cast<std::byte*>(at.weights.data_ptr());
    const auto* from = static_cast<const std::byte*>(whole.const_data_ptr());
    uint64_t there = 0;
    while (there < bytes) {
      auto next = std::min(bytes, there + bytes / 1000 + 1);
      for (; there < next; ++there) {
        auto i = (start + there) % bytes;
        to[i] = from[i];
      }
      progress->reach(there);
      std::this_thread::yield();
    }
  }};
  batch_context about;
  about.arriving = waits_on(progress);
  auto found = at.run(about);
  sender.join();
  CHECK_FALSE(found.cancelled);
  CHECK(at.gradient.equal(expected));
}

TEST_CASE("forward begins before the last weights are there") {
  workplace at{"lenet"};
  auto bytes = at.engine.layout().bytes();
  auto progress = std::make_shared<arrival>(bytes, bytes);
  const auto& slots = at.engine.layout().slots();
  progress->reach(4 * slots[4].offset); // Both convolutions have come.
  static std::atomic<int> pools;
  pools = 0;
  auto handle = at::addGlobalCallback(at::RecordFunctionCallback{
    [](const at::RecordFunction& f) -> std::unique_ptr<at::ObserverContext> {
      if (std::string_view{f.name()} == "aten::max_pool2d")
        ++pools;
      return nullptr;
    }}.scopes({at::RecordScope::FUNCTION}));
  batch_context about;
  about.arriving = waits_on(progress);
  auto done = std::async(std::launch::async, [&] { return at.run(about); });
  while (pools < 2) // Both have been computed.
    std::this_thread::yield();
  CHECK(done.wait_for(std::chrono::milliseconds(20)) ==
        std::future_status::timeout);
  progress->reach(bytes);
  CHECK_FALSE(done.get().cancelled);
  at::removeCallback(handle);
}

TEST_CASE("weights that do not come cancel what is computed on them") {
  auto network = GENERATE("lenet", "resnet20");
  workplace at{network};
  auto progress = std::make_shared<arrival>(at.engine.layout().bytes(), 0);
  batch_context about;
  about.arriving = waits_on(progress);
  auto done = std::async(std::launch::async, [&] { return at.run(about); });
  progress->reach(1000);
  progress->break_off();
  CHECK(done.get().cancelled);
  CHECK_FALSE(at.run().cancelled); // The engine is as good as new.
}
