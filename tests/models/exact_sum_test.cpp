#include "models/optim/exact_sum.hpp"

#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

using namespace troupe::models;

namespace {

double sum_of(const std::vector<double>& numbers) {
  exact_sum out;
  out.add(numbers);
  return out.value();
}

} // namespace

TEST_CASE("an exact sum loses nothing", "[exact_sum]") {
  CHECK(sum_of({}) == 0);
  CHECK(sum_of({0, -0.0}) == 0);
  CHECK(sum_of({1e100, 1, -1e100}) == 1);
  CHECK(sum_of(std::vector<double>(10, 0.1)) == 1);
  // 2^53 + 1 lies halfway; what is below decides, else the even neighbour.
  constexpr double big = 0x1p53;
  CHECK(sum_of({big, 1}) == big);
  CHECK(sum_of({big, 1, 0x1p-60}) == big + 2);
  CHECK(sum_of({big + 2, 1}) == big + 4);
  CHECK(sum_of({big + 2, 1, -0x1p-60}) == big + 2);
}

TEST_CASE("an exact sum does not depend on order and division", "[exact_sum]") {
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    INFO("seed " << seed);
    std::mt19937_64 random{seed};
    std::uniform_real_distribution<> mantissa{-1, 1};
    std::uniform_int_distribution<> exponent{-120, 120};
    std::vector<double> numbers(1 + random() % 200);
    for (auto& x : numbers)
      x = std::ldexp(mantissa(random), exponent(random));
    auto expected = sum_of(numbers);
    std::ranges::shuffle(numbers, random);
    CHECK(sum_of(numbers) == expected);
    // Each shard sums up its own, and their parts are added.
    exact_sum whole;
    for (size_t first = 0; first < numbers.size();) {
      auto count = std::min(numbers.size() - first, 1 + random() % 70);
      exact_sum part;
      part.add(std::span{numbers}.subspan(first, count));
      whole.add(part.parts());
      first += count;
    }
    CHECK(whole.value() == expected);
  }
}

TEST_CASE("an exact sum of what is not finite is not finite", "[exact_sum]") {
  constexpr auto inf = std::numeric_limits<double>::infinity();
  CHECK(sum_of({1, inf, 2}) == inf);
  CHECK(sum_of({1, 0x1p1023, 0x1p1023}) == inf);
  CHECK(std::isnan(sum_of({std::nan(""), 1})));
}
