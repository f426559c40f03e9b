// Everything that trains, in a plain loop without actors.

#include "data/dataset.hpp"
#include "data/sampling/permutation.hpp"
#include "models/engine/compute.hpp"
#include "models/layout/weights_store.hpp"
#include "models/optim/aggregate.hpp"
#include "models/optim/optimizer.hpp"

#include <ATen/Parallel.h>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <algorithm>

using namespace troupe;

namespace {

constexpr uint64_t seed = 1;

/// Trains on the digits, one worker, and returns the store of the weights.
double accuracy_after(uint64_t epochs, const config::training_settings& s) {
  auto set = data::load_dataset({}, seed);
  models::compute_engine engine{s, set.train->classes()};
  models::weights_store store{engine.layout().count(), s.dtype};
  auto optimizer = models::make_optimizer(s, engine.layout());
  auto next = store.next_buffer();
  auto gradient = store.next_buffer();
  engine.initial_weights(next, seed);
  auto current = store.publish(version{0}, next);
  data::epoch_order order{seed, set.train->size()};
  for (uint64_t epoch = 0; epoch < epochs; ++epoch) {
    for (uint64_t i = 0; i < order.size(); i += s.batch_size) {
      auto n = std::min(s.batch_size, order.size() - i);
      auto batch = set.train->gather(order.lease_indices(epoch, i, n), s.dtype);
      engine.run(current->flat, batch.inputs, batch.targets, gradient);
      next = store.next_buffer();
      double share = 1; // A gradient alone is the mean.
      optimizer->step(next, current->flat, {&gradient, 1}, {&share, 1}, s.lr);
      current = store.publish(current->id.next(), next);
    }
  }
  uint64_t position = 0;
  auto score = engine.evaluate(current->flat, [&](auto& inputs, auto& targets) {
    auto n = std::min<uint64_t>(256, set.test->size() - position);
    auto batch = set.test->gather_range(position, n, s.dtype);
    position += n;
    inputs = batch.inputs;
    targets = batch.targets;
    return n > 0;
  });
  return score.accuracy;
}

} // namespace

TEST_CASE("LeNet learns the digits", "[learning]") {
  at::set_num_threads(1);
  config::training_settings s;
  s.optimizer = GENERATE("sgd", "adam");
  s.momentum = 0.9;
  s.lr = s.optimizer == "sgd" ? 0.01 : 0.001;
  CHECK(accuracy_after(8, s) > 0.9);
}
