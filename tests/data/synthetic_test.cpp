#include "data/dataset.hpp"
#include "data/formats/sources.hpp"
#include "tests/support/element_types.hpp"

#include <ATen/ATen.h>
#include <catch2/catch_test_macros.hpp>

using namespace troupe;
using namespace troupe::data;
using namespace troupe::test;

namespace {

config::data_settings named(const std::string& name) {
  config::data_settings out;
  out.dataset = name;
  return out;
}

at::Tensor inputs_of(const dataset& from) {
  return from.gather_range(0, from.size(), float32).inputs;
}

} // namespace

TEST_CASE("synthetic data have the shape that was asked for", "[synthetic]") {
  auto set =
    load_dataset(named("synthetic(shape=2x9x7,classes=3,samples=50)"), 1);
  CHECK(set.train->shape() == std::vector<int64_t>{2, 9, 7});
  CHECK(set.train->classes() == 3);
  CHECK(set.train->size() == 50);
  CHECK(set.test->size() == 10);
  auto first = set.train->gather_range(0, 6, float32).targets;
  CHECK(at::equal(first, at::tensor({0, 1, 2, 0, 1, 2}, at::kLong)));
}

TEST_CASE("synthetic data are the same for every seed and load again by name",
          "[synthetic]") {
  auto set = load_dataset(named("synthetic(samples=20)"), 1);
  auto again = load_dataset(named(set.train->name()), 2);
  CHECK(at::equal(inputs_of(*set.train), inputs_of(*again.train)));
  CHECK(at::equal(inputs_of(*set.test), inputs_of(*again.test)));
  CHECK_FALSE(
    at::equal(inputs_of(*set.train).slice(0, 0, 4), inputs_of(*set.test)));
}

TEST_CASE("classes of synthetic data can be told apart", "[synthetic]") {
  auto set =
    load_dataset(named("synthetic(shape=3x8x8,classes=4,samples=80)"), 1);
  auto all = inputs_of(*set.train).reshape({20, 4, -1}).mean(0);
  auto test = inputs_of(*set.test).reshape({4, 4, -1});
  for (int64_t label = 0; label < 4; ++label)
    for (int64_t i = 0; i < 4; ++i) {
      auto distances = (all - test[i][label]).square().sum(1);
      CHECK(distances.argmin().item<int64_t>() == label);
    }
}
