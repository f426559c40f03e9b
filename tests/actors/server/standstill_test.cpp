#include "actors/server/standstill.hpp"

#include <catch2/catch_test_macros.hpp>

using troupe::standstill;

TEST_CASE("a run without a step for long is told of, less and less often") {
  standstill watch{10};
  CHECK_FALSE(watch.due(9.9));
  CHECK(watch.due(10) == 10);
  CHECK_FALSE(watch.due(19.9));
  CHECK(watch.due(20) == 20);
  CHECK(watch.due(41) == 41);
  watch.step(42);
  // The longest step took 42 s: 84 s are not usual.
  CHECK_FALSE(watch.due(125));
  CHECK(watch.due(126) == 84);
  CHECK_FALSE(standstill{0}.due(1000));
}

TEST_CASE("steps that take long are no standstill") {
  standstill watch{10};
  for (double now = 8; now < 100; now += 8) {
    CHECK_FALSE(watch.due(now));
    watch.step(now);
  }
  CHECK_FALSE(watch.due(96 + 15));
  CHECK(watch.due(96 + 16) == 16);
}
