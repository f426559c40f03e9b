// Whose turn it is, and which samples count in some fragments only.

#include "tests/support/histories.hpp"
#include "tests/support/members.hpp"

#include <catch2/catch_test_macros.hpp>

using namespace troupe;
using namespace troupe::test;
using cores::fragment_turn;
using cores::fragment_turns;

namespace {

fragment_turn all_then(uint32_t which) {
  return {which, false};
}

fragment_turn next(uint32_t which) {
  return {which, true};
}

} // namespace

TEST_CASE("a worker begins with everything, then fragments come in turn") {
  fragment_turns uut{3};
  uut.begin(w0);
  CHECK((uut.release(w0, version{4}, false) == all_then(1)));
  for (uint32_t round = 0; round < 7; ++round) {
    CHECK(uut.of_push(w0) == (1 + round) % 3);
    uut.pushed(w0);
    auto expected = next((2 + round) % 3);
    CHECK((uut.release(w0, version{5 + round}, false) == expected));
  }
  SECTION("a gradient that is dropped, or not taken, begins anew") {
    uut.pushed(w0);
    CHECK((uut.release(w0, version{9}, true) == all_then(0)));
    uut.asks_anew(w0);
    CHECK((uut.release(w0, version{10}, false) == all_then(1)));
  }
  SECTION("so does another life") {
    uut.pushed(w0);
    uut.begin(w0);
    CHECK((uut.release(w0, version{11}, false) == all_then(2)));
  }
  SECTION("workers that begin later exchange what the others do") {
    uut.begin(w1);
    auto others = uut.of_push(w0);
    CHECK((uut.release(w1, version{11}, false) == all_then(others)));
  }
}

TEST_CASE("samples of the latest gradients are in some fragments only") {
  fragment_turns uut{3, 7};
  uut.begin(w0);
  uut.release(w0, version{0}, false);
  CHECK(uut.partly_applied() == 7);
  for (uint64_t samples : {10, 20, 30})
    uut.applied(w0, samples, true);
  CHECK(uut.partly_applied() == 7 + 50); // The first is in all of them.
  SECTION("a worker that is lost leaves them so") {
    uut.leave(w0);
    CHECK(uut.partly_applied() == 57);
    uut.applied(w0, 5, false); // The policy held it until now.
    CHECK(uut.partly_applied() == 62);
  }
  SECTION("so does one that begins anew") {
    uut.asks_anew(w0);
    uut.release(w0, version{3}, false);
    for (uint64_t samples : {1, 2, 3})
      uut.applied(w0, samples, true);
    CHECK(uut.partly_applied() == 57 + 5);
  }
}

TEST_CASE("with one fragment all samples are in all of them") {
  fragment_turns uut{1};
  uut.begin(w0);
  uut.release(w0, version{0}, false);
  for (int i = 0; i < 3; ++i) {
    uut.pushed(w0);
    uut.applied(w0, 10, true);
    CHECK((uut.release(w0, version{1}, false) == next(0)));
  }
  uut.leave(w0);
  CHECK(uut.partly_applied() == 0);
}
