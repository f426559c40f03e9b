#include "models/engine/compute.hpp"
#include "models/engine/replicas.hpp"

#include <ATen/ATen.h>
#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>

#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

using namespace troupe;
using namespace troupe::models;

using Catch::Approx;

namespace {

struct rig {
  explicit rig(const std::string& network, std::vector<int64_t> sample,
               std::optional<uint64_t> micro_batch = {})
    : engine(settings_for(network, micro_batch), 10), weights(flat()),
      shape(std::move(sample)) {
    engine.initial_weights(weights, 1);
  }

  static config::training_settings
  settings_for(const std::string& network,
               std::optional<uint64_t> micro_batch) {
    config::training_settings out;
    out.network = network;
    out.micro_batch_size = micro_batch;
    return out;
  }

  at::Tensor flat() const {
    return at::empty({static_cast<int64_t>(engine.layout().count())});
  }

  void draw(int64_t samples) {
    shape.front() = samples;
    inputs = at::randn(shape);
    targets = at::randint(10, {samples}, at::kLong);
  }

  gradient_result run(const at::Tensor& gradient, const replica_part& part) {
    auto first = static_cast<int64_t>(part.first);
    auto count = static_cast<int64_t>(part.count);
    batch_context about{lease{lease_id{1}, 0, 0, part.of}};
    about.part = part;
    return engine.run(weights, inputs.narrow(0, first, count),
                      targets.narrow(0, first, count), gradient, about);
  }

  compute_engine engine;
  at::Tensor weights;
  std::vector<int64_t> shape;
  at::Tensor inputs;
  at::Tensor targets;
};

} // namespace

TEST_CASE("a batch is cut as torch.chunk cuts it") {
  std::mt19937 random{17};
  for (int i = 0; i < 500; ++i) {
    auto samples = std::uniform_int_distribution<uint64_t>{1, 200}(random);
    auto replicas = std::uniform_int_distribution<uint32_t>{1, 12}(random);
    auto expected = at::empty({static_cast<int64_t>(samples)})
                      .chunk(static_cast<int64_t>(replicas));
    auto parts = cut_batch(samples, replicas);
    REQUIRE(parts.size() == expected.size());
    uint64_t first = 0;
    for (size_t k = 0; k < parts.size(); ++k) {
      CHECK(parts[k].first == first);
      CHECK(parts[k].count == static_cast<uint64_t>(expected[k].numel()));
      CHECK(parts[k].of == samples);
      first += parts[k].count;
    }
  }
  // All samples of a batch were damaged and skipped.
  REQUIRE(cut_batch(0, 3).size() == 1);
  CHECK(cut_batch(0, 3).front().count == 0);
}

TEST_CASE("the gradients of replicas add up to that of the whole batch") {
  for (auto [samples, replicas] :
       {std::pair{8, 2u}, {7, 3u}, {6, 6u}, {2, 5u}}) {
    INFO(samples << " samples, " << replicas << " replicas");
    auto all = static_cast<uint64_t>(samples);
    auto parts = cut_batch(all, replicas);
    rig it{"mnist_net", {0, 1, 28, 28}};
    it.draw(samples);
    // With as many micro-batches, which have the same dropout masks.
    rig alone{"mnist_net", {0, 1, 28, 28}, parts.front().count};
    alone.weights = it.weights;
    alone.inputs = it.inputs;
    alone.targets = it.targets;
    auto whole = it.flat();
    auto expected = alone.run(whole, {0, all, 0});
    at::Tensor sum;
    gradient_result found;
    for (const auto& part : parts) {
      auto gradient = it.flat();
      auto one = it.run(gradient, part);
      found.loss += one.loss;
      found.samples += one.samples;
      if (sum.defined())
        add_replica(it.engine.layout(), sum, gradient);
      else
        sum = gradient;
    }
    CHECK(found.samples == expected.samples);
    CHECK(found.loss == Approx(expected.loss).epsilon(1e-5));
    CHECK(at::allclose(sum, whole, 1e-4, 1e-6));
  }
}

TEST_CASE("the running statistics are those of the first replica") {
  rig it{"resnet20", {0, 3, 16, 16}};
  it.draw(8);
  const auto& layout = it.engine.layout();
  auto first = it.flat();
  auto second = it.flat();
  it.run(first, {0, 4, 8});
  it.run(second, {4, 4, 8});
  auto sum = first.clone();
  add_replica(layout, sum, second);
  CHECK(at::equal(layout.statistics_of(sum), layout.statistics_of(first)));
  CHECK(at::equal(layout.parameters_of(sum),
                  layout.parameters_of(first) + layout.parameters_of(second)));
}
