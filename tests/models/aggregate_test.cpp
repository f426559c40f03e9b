#include "config/failure.hpp"
#include "models/aggregate.hpp"

#include <catch2/catch_test_macros.hpp>
#include <torch/torch.h>

#include <limits>
#include <vector>

using namespace troupe;
using namespace troupe::models;

namespace {

/// Longer than a block and no multiple of any vector's length.
constexpr int64_t count = 40'003;

std::vector<at::Tensor> some_gradients(size_t n, at::ScalarType dtype) {
  std::vector<at::Tensor> result;
  for (size_t i = 0; i < n; ++i) {
    result.push_back(at::randn({count}, dtype));
  }
  return result;
}

} // namespace

TEST_CASE("gradients are averaged by samples", "[aggregate]") {
  for (auto dtype : {at::kFloat, at::kDouble}) {
    for (size_t n = 2; n <= 9; ++n) {
      auto gradients = some_gradients(n, dtype);
      std::vector<uint64_t> samples;
      auto expected = at::zeros({count}, at::kDouble);
      double total = 0;
      for (size_t i = 0; i < n; ++i) {
        samples.push_back(64 - 7 * i);
        expected += gradients[i].to(at::kDouble) * double(samples.back());
        total += double(samples.back());
      }
      expected /= total;
      auto out = at::full({count}, 1e30, dtype);
      const auto& result = weighted_mean(out, gradients, samples);
      CHECK(&result == &out);
      CHECK(at::allclose(out.to(at::kDouble), expected, 1e-5, 1e-6));
    }
  }
}

TEST_CASE("the order of gradients fixes the bits", "[aggregate]") {
  auto gradients = some_gradients(6, at::kFloat);
  std::vector<uint64_t> samples(6, 64);
  auto first = at::empty({count});
  auto again = at::empty({count});
  weighted_mean(first, gradients, samples);
  weighted_mean(again, gradients, samples);
  CHECK(at::equal(first, again));
}

TEST_CASE("a single gradient is its own mean", "[aggregate]") {
  auto gradients = some_gradients(1, at::kFloat);
  auto out = at::zeros({count});
  std::vector<uint64_t> samples{29};
  CHECK(&weighted_mean(out, gradients, samples) == gradients.data());
  CHECK(out.eq(0).all().item<bool>());
}

TEST_CASE("gradients of no samples count nothing", "[aggregate]") {
  auto gradients = some_gradients(2, at::kFloat);
  auto out = at::empty({count});
  std::vector<uint64_t> samples{0, 5};
  CHECK(at::equal(weighted_mean(out, gradients, samples), gradients[1]));
}

TEST_CASE("what cannot be averaged is refused", "[aggregate]") {
  auto gradients = some_gradients(2, at::kFloat);
  auto out = at::empty({count});
  std::vector<uint64_t> both{1, 1};
  std::vector<uint64_t> one{1};
  std::vector<uint64_t> none{0, 0};
  CHECK_THROWS_AS(weighted_mean(out, {}, {}), run_error);
  CHECK_THROWS_AS(weighted_mean(out, gradients, one), run_error);
  CHECK_THROWS_AS(weighted_mean(out, gradients, none), run_error);
  CHECK_THROWS_AS(weighted_mean(at::empty({3}), gradients, both), run_error);
  gradients[1] = gradients[1].to(at::kDouble);
  CHECK_THROWS_AS(weighted_mean(out, gradients, both), run_error);
}

TEST_CASE("NaN and infinity are found wherever they are", "[aggregate]") {
  auto inf = std::numeric_limits<double>::infinity();
  auto nan = std::numeric_limits<double>::quiet_NaN();
  for (auto dtype : {at::kFloat, at::kDouble}) {
    auto flat = at::randn({count}, dtype);
    flat[0] = dtype == at::kFloat ? 3.4e38 : 1.7e308;
    flat[1] = 1e-310;
    CHECK(all_finite(flat));
    for (auto bad : {inf, -inf, nan}) {
      for (int64_t i : {int64_t{0}, int64_t{17'000}, count - 1}) {
        auto spoilt = flat.clone();
        spoilt[i] = bad;
        CHECK_FALSE(all_finite(spoilt));
      }
    }
  }
  CHECK(all_finite(at::empty({0})));
  CHECK_THROWS_AS(all_finite(at::zeros({2}, at::kLong)), run_error);
}
