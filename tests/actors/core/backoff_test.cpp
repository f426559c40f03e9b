#include "actors/core/backoff.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_floating_point.hpp>

#include <limits>
#include <vector>

using namespace troupe::cores;
using Catch::Matchers::WithinAbs;

namespace {

constexpr backoff_rules regular{0.1, 2, 1, 0, 10};

constexpr double never = std::numeric_limits<double>::infinity();

} // namespace

TEST_CASE("delays grow up to the cap") {
  backoff retry{regular, {}, 0};
  std::vector<double> delays;
  for (int i = 0; i < 6; ++i)
    delays.push_back(*retry.next(0));
  CHECK(delays == std::vector{0.1, 0.2, 0.4, 0.8, 1.0, 1.0});
  CHECK(retry.failures() == 6);
}

TEST_CASE("the last try is made when the total is reached, then it gives up") {
  backoff retry{regular, {}, 100};
  CHECK(retry.next(100) == 0.1);
  CHECK(retry.next(105) == 0.2);
  CHECK_THAT(*retry.next(109.75), WithinAbs(0.25, 1e-9));
  CHECK(!retry.next(110));
  CHECK(!retry.next(111));
}

TEST_CASE("a clock that counts nanoseconds comes to the end") {
  for (uint64_t seed = 0; seed < 1000; ++seed) {
    backoff retry{{}, counter_random{seed}, 0};
    int64_t now = 0; // ns
    int tries = 0;
    while (auto delay = retry.next(static_cast<double>(now) * 1e-9)) {
      now += static_cast<int64_t>(*delay * 1e9);
      REQUIRE(++tries < 1000);
    }
  }
}

TEST_CASE("success begins a new series") {
  backoff retry{regular, {}, 0};
  retry.next(1);
  retry.next(2);
  retry.reset();
  CHECK(retry.failures() == 0);
  // However long all went well meanwhile.
  CHECK(retry.next(1000) == 0.1);
  CHECK(retry.next(1009.9));
  CHECK(!retry.next(1010));
}

TEST_CASE("a retry without an end goes on for ever") {
  backoff retry{{1, 10, 1e9, 0.5, never}, {}, 0};
  for (int i = 0; i < 400; ++i) {
    auto delay = retry.next(1e12 * i);
    REQUIRE(delay);
    REQUIRE((*delay > 0 && *delay <= 1e9));
  }
}

TEST_CASE("jitter takes off at most its share and differs between clients") {
  backoff_rules rules{1, 1, 1, 0.5, never};
  backoff one{rules, {1}, 0};
  backoff same{rules, {1}, 0};
  backoff other{rules, {2}, 0};
  bool differs = false;
  double lowest = 1;
  double highest = 0;
  for (int i = 0; i < 1000; ++i) {
    auto delay = *one.next(0);
    lowest = std::min(lowest, delay);
    highest = std::max(highest, delay);
    REQUIRE(delay == *same.next(0));
    differs = differs || delay != *other.next(0);
  }
  CHECK(differs);
  CHECK_THAT(lowest, WithinAbs(0.5, 0.01));
  CHECK_THAT(highest, WithinAbs(1.0, 0.01));
}

TEST_CASE("what goes on is not given up") {
  backoff retry{regular, {}, 0};
  CHECK(retry.next(0));
  auto give_up = regular.give_up;
  double now = 0;
  for (uint64_t point = 1; point < 20; ++point) {
    now += give_up / 2;
    CHECK(retry.reached(point, now));
    CHECK(retry.next(now));
  }
  CHECK_FALSE(retry.reached(19, now + give_up / 2));
  CHECK(retry.next(now + give_up * 0.9));
  CHECK_FALSE(retry.next(now + give_up * 1.1));
}

TEST_CASE("a counter-based generator is a function of seed and counter") {
  counter_random a{42};
  counter_random b{42, 2};
  a.next();
  a.next();
  CHECK(a.next() == b.next());
  // The first numbers of SplitMix64 with seed 0, as its authors publish them.
  counter_random zero;
  CHECK(zero.next() == 0xe220a8397b1dcdafu);
  CHECK(zero.next() == 0x6e789e6aa1b965f4u);
}
