#include "config/text/failure.hpp"
#include "models/optim/aggregate.hpp"

#include <ATen/ATen.h>
#include <catch2/catch_template_test_macros.hpp>
#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <limits>
#include <span>
#include <vector>

using namespace troupe;
using namespace troupe::models;

namespace {

/// Longer than a block and no multiple of any vector's length.
constexpr int64_t elements = 40'003;

std::vector<at::Tensor> some_gradients(size_t n, at::ScalarType dtype) {
  std::vector<at::Tensor> result;
  for (size_t i = 0; i < n; ++i) {
    result.push_back(at::randn({elements}, dtype));
  }
  return result;
}

/// All blocks of the mean, one after another.
template <class T>
at::Tensor whole_mean(std::span<const at::Tensor> gradients,
                      std::span<const double> shares) {
  blocked_mean<T> uut{gradients, shares};
  auto result = at::empty_like(gradients[0]);
  auto size = static_cast<size_t>(result.numel());
  for (size_t first = 0; first < size; first += uut.block()) {
    auto n = std::min(uut.block(), size - first);
    std::copy_n(uut.at(first, n), n,
                result.template mutable_data_ptr<T>() + first);
  }
  return result;
}

} // namespace

TEMPLATE_TEST_CASE("gradients are averaged by samples", "[aggregate]", float,
                   double) {
  for (size_t n = 1; n <= 9; ++n) {
    auto gradients =
      some_gradients(n, c10::CppTypeToScalarType<TestType>::value);
    std::vector<double> shares;
    auto expected = at::zeros({elements}, at::kDouble);
    double total = 0;
    for (size_t i = 0; i < n; ++i) {
      shares.push_back(64 - 7 * i);
      expected += gradients[i].to(at::kDouble) * double(shares.back());
      total += double(shares.back());
    }
    expected /= total;
    auto result = whole_mean<TestType>(gradients, shares);
    CHECK(at::allclose(result.to(at::kDouble), expected, 1e-5, 1e-6));
  }
}

TEST_CASE("the order of gradients fixes the bits", "[aggregate]") {
  auto gradients = some_gradients(6, at::kFloat);
  std::vector<double> shares(6, 64);
  CHECK(at::equal(whole_mean<float>(gradients, shares),
                  whole_mean<float>(gradients, shares)));
}

TEST_CASE("a single gradient is its own mean, without a copy", "[aggregate]") {
  auto gradients = some_gradients(1, at::kFloat);
  std::vector<double> shares{29};
  blocked_mean<float> uut{gradients, shares};
  CHECK(uut.at(100, 7) == gradients[0].const_data_ptr<float>() + 100);
}

TEST_CASE("gradients of no samples count nothing", "[aggregate]") {
  auto gradients = some_gradients(2, at::kFloat);
  std::vector<double> shares{0, 5};
  CHECK(at::equal(whole_mean<float>(gradients, shares), gradients[1]));
}

TEST_CASE("what cannot be averaged is refused", "[aggregate]") {
  auto gradients = some_gradients(2, at::kFloat);
  std::vector<double> both{1, 1};
  std::vector<double> one{1};
  std::vector<double> none{0, 0};
  using mean = blocked_mean<float>;
  CHECK_THROWS_AS(mean({}, {}), run_error);
  CHECK_THROWS_AS(mean(gradients, one), run_error);
  CHECK_THROWS_AS(mean(gradients, none), run_error);
  CHECK_THROWS_AS(blocked_mean<double>(gradients, both), run_error);
  gradients[1] = at::empty({3});
  CHECK_THROWS_AS(mean(gradients, both), run_error);
  gradients[1] = at::empty({elements}, at::kDouble);
  CHECK_THROWS_AS(mean(gradients, both), run_error);
}

TEST_CASE("NaN and infinity are found wherever they are", "[aggregate]") {
  auto inf = std::numeric_limits<double>::infinity();
  auto nan = std::numeric_limits<double>::quiet_NaN();
  for (auto dtype : {at::kFloat, at::kDouble}) {
    auto flat = at::randn({elements}, dtype);
    flat[0] = dtype == at::kFloat ? 3.4e38 : 1.7e308;
    flat[1] = 1e-310;
    CHECK(all_finite(flat));
    for (auto bad : {inf, -inf, nan}) {
      for (int64_t i : {int64_t{0}, int64_t{17'000}, elements - 1}) {
        auto spoilt = flat.clone();
        spoilt[i] = bad;
        CHECK_FALSE(all_finite(spoilt));
      }
    }
  }
  CHECK(all_finite(at::empty({0})));
  CHECK_THROWS_AS(all_finite(at::zeros({2}, at::kLong)), run_error);
}

TEST_CASE("each of several threads finds NaN", "[aggregate]") {
  constexpr int64_t part = least_checked_part;
  lanes across{3};
  auto flat = at::zeros({3 * part + 1});
  CHECK(all_finite(flat, across));
  for (int64_t i : {int64_t{0}, part - 1, part, 3 * part - 1, 3 * part}) {
    flat[i] = std::numeric_limits<double>::quiet_NaN();
    CHECK_FALSE(all_finite(flat, across));
    flat[i] = 0;
  }
}
