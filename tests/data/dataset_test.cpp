#include "config/text/failure.hpp"
#include "data/dataset.hpp"
#include "data/formats/embedded.hpp"
#include "data/formats/idx.hpp"
#include "tests/support/element_types.hpp"

#include <ATen/ops/allclose.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/std.h>
#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <map>
#include <set>
#include <string>

using namespace troupe;
using namespace troupe::data;
using namespace troupe::test;

namespace {

dataset::parts tiny() {
  return {.name = "tiny",
          .shape = {1, 1, 2},
          .classes = 3,
          .pixels = {0, 255, 51, 102, 1, 2},
          .labels = {2, 0, 1},
          .scale = {{0.5}, {0.25}}};
}

dataset_pair digits(uint64_t seed) {
  return load_dataset({}, seed);
}

std::map<int64_t, int> count_labels(const dataset& set) {
  auto targets = set.gather_range(0, set.size(), float32).targets;
  std::map<int64_t, int> result;
  for (int64_t i = 0; i < targets.numel(); ++i) {
    ++result[targets.const_data_ptr<int64_t>()[i]];
  }
  return result;
}

/// The images of a set as strings of bytes.
std::multiset<std::string> image_bytes(const dataset& set) {
  auto inputs = set.gather_range(0, set.size(), float32).inputs;
  std::multiset<std::string> result;
  for (int64_t i = 0; i < inputs.size(0); ++i) {
    auto image = inputs[i];
    result.emplace(static_cast<const char*>(image.const_data_ptr()),
                   image.nbytes());
  }
  return result;
}

} // namespace

TEST_CASE("gather normalises and keeps the order", "[dataset]") {
  dataset uut{tiny()};
  std::vector<int64_t> indices{1, 0, 1};
  auto batch = uut.gather(indices, float32);
  CHECK(batch.samples == 3);
  CHECK(batch.inputs.sizes() == at::IntArrayRef{3, 1, 1, 2});
  CHECK(batch.inputs.scalar_type() == at::kFloat);
  CHECK(batch.targets.scalar_type() == at::kLong);
  const auto* x = batch.inputs.const_data_ptr<float>();
  std::vector<float> expected{-1.2f, -0.4f, -2, 2, -1.2f, -0.4f};
  for (size_t i = 0; i < expected.size(); ++i) {
    CHECK(x[i] == Catch::Approx(expected[i]));
  }
  const auto* y = batch.targets.const_data_ptr<int64_t>();
  CHECK(std::vector<int64_t>(y, y + 3) == std::vector<int64_t>{0, 2, 0});
}

TEST_CASE("float64 batches have the same values, finer", "[dataset]") {
  dataset uut{tiny()};
  auto wide = uut.gather_range(0, 3, float64).inputs;
  CHECK(wide.scalar_type() == at::kDouble);
  CHECK(at::equal(wide.to(at::kFloat), uut.gather_range(0, 3, float32).inputs));
}

TEST_CASE("an empty batch is a batch", "[dataset]") {
  auto batch = dataset{tiny()}.gather({}, float32);
  CHECK(batch.samples == 0);
  CHECK(batch.inputs.numel() == 0);
}

TEST_CASE("samples that are not there are refused", "[dataset]") {
  dataset uut{tiny()};
  for (int64_t bad : {int64_t{3}, int64_t{-1}, INT64_MAX}) {
    CHECK_THROWS_AS(uut.gather(std::span{&bad, 1}, float32), run_error);
  }
}

TEST_CASE("parts that do not fit together are refused", "[dataset]") {
  auto few_pixels = tiny();
  few_pixels.pixels.pop_back();
  CHECK_THROWS_AS(dataset{few_pixels}, run_error);
  auto high_label = tiny();
  high_label.labels[0] = 3;
  CHECK_THROWS_AS(dataset{high_label}, run_error);
}

TEST_CASE("the bundled digits are whole", "[digits]") {
  auto raw = parse_idx_images(embedded_digits_images, "digits");
  CHECK(raw.count == 1797);
  CHECK(raw.rows == 8);
  CHECK(*std::ranges::max_element(raw.pixels) == 16);
  auto pair = digits(1);
  CHECK(pair.train->size() == 1437);
  CHECK(pair.test->size() == 360);
  CHECK(pair.train->shape() == std::vector<int64_t>{1, 28, 28});
  CHECK(pair.train->classes() == 10);
}

TEST_CASE("the digits are split in proportion", "[digits]") {
  auto pair = digits(1);
  auto train = count_labels(*pair.train);
  for (auto [label, tested] : count_labels(*pair.test)) {
    auto share = (tested + train[label]) * 360.0 / 1797;
    CHECK(std::abs(tested - share) < 1);
  }
}

TEST_CASE("the seed alone decides the split of the digits", "[digits]") {
  auto first = digits(1);
  auto again = digits(1);
  auto other = digits(2);
  CHECK(image_bytes(*first.test) == image_bytes(*again.test));
  CHECK(image_bytes(*first.test) != image_bytes(*other.test));
  auto all = [](const dataset_pair& x) {
    auto result = image_bytes(*x.train);
    result.merge(image_bytes(*x.test));
    return result;
  };
  CHECK(all(first) == all(other));
}

TEST_CASE("the digits are normalised to mean 0, deviation 1", "[digits]") {
  auto pair = digits(1);
  auto train = pair.train->gather_range(0, 1437, float64).inputs;
  CHECK(std::abs(train.mean().item<double>()) < 0.01);
  CHECK(std::abs(train.std().item<double>() - 1) < 0.01);
}

TEST_CASE("digits are enlarged without shift or loss of range", "[digits]") {
  auto raw = parse_idx_images(embedded_digits_images, "digits");
  auto chosen = digits(1);
  auto all = image_bytes(*chosen.train);
  // A pixel's mean is kept but for the edges, so brightness is nearly kept.
  double small = 0;
  for (auto x : raw.pixels) {
    small += x / 16.0;
  }
  small /= static_cast<double>(raw.pixels.size());
  CHECK(small == Catch::Approx(0.3053).margin(0.002));
  auto large = chosen.train->gather_range(0, 1437, float32).inputs;
  CHECK(large.min().item<float>() == Catch::Approx(-0.3053 / 0.3247));
  CHECK(large.max().item<float>() == Catch::Approx((1 - 0.3053) / 0.3247));
}
