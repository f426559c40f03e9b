#include "apps/lab/simulation/durations.hpp"

#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <cmath>
#include <vector>

using namespace troupe;
using simulation::durations;

namespace {

durations of(const char* text, uint64_t seed = 1) {
  return {config::parse_distribution(text), seed};
}

constexpr worker_id somebody{3};

struct figures {
  double mean;
  double deviation;
  double least;
};

figures measure(const durations& times, worker_id who = somebody) {
  constexpr int n = 100'000;
  double sum = 0;
  double squares = 0;
  double least = INFINITY;
  for (int i = 0; i < n; ++i) {
    auto x = times.draw(who, i);
    sum += x;
    squares += x * x;
    least = std::min(least, x);
  }
  auto mean = sum / n;
  return {mean, std::sqrt(squares / n - mean * mean), least};
}

} // namespace

TEST_CASE("a constant is itself") {
  CHECK(of("constant(0.25)").draw(somebody, 7) == 0.25);
}

TEST_CASE("draws have the declared mean and spread") {
  auto gamma = measure(of("gamma(mean=2,cv=0.5)"));
  CHECK(gamma.mean == Catch::Approx(2).epsilon(0.01));
  CHECK(gamma.deviation == Catch::Approx(1).epsilon(0.02));

  auto exponential = measure(of("exp(offset=0.5,mean=2)"));
  CHECK(exponential.mean == Catch::Approx(2.5).epsilon(0.02));
  CHECK(exponential.deviation == Catch::Approx(2).epsilon(0.02));
  CHECK(exponential.least >= 0.5);

  auto pareto = measure(of("pareto(alpha=4,mean=2)"));
  CHECK(pareto.mean == Catch::Approx(2).epsilon(0.02));
  CHECK(pareto.least >= 1.5);

  auto transient = measure(of("transient(base=constant(1),p=0.05,factor=5)"));
  CHECK(transient.mean == Catch::Approx(1.2).epsilon(0.02));
  CHECK(transient.least == 1);
}

TEST_CASE("one worker is slow, the others are not") {
  auto slow = of("slow(base=constant(1),worker=3,factor=4)");
  CHECK(slow.draw(worker_id{3}, 0) == 4);
  CHECK(slow.draw(worker_id{2}, 0) == 1);
}

TEST_CASE("a draw depends on seed, worker and number alone") {
  auto one = of("gamma(mean=1,cv=0.1)");
  auto same = of("gamma(mean=1,cv=0.1)");
  auto other = of("gamma(mean=1,cv=0.1)", 2);
  one.draw(somebody, 1);
  one.draw(worker_id{9}, 0);
  CHECK(one.draw(somebody, 5) == same.draw(somebody, 5));
  CHECK(one.draw(somebody, 5) != same.draw(somebody, 6));
  CHECK(one.draw(somebody, 5) != same.draw(worker_id{4}, 5));
  CHECK(one.draw(somebody, 5) != other.draw(somebody, 5));
}
