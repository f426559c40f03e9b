#include "actors/core/push_window.hpp"

#include <catch2/catch_test_macros.hpp>

#include <map>
#include <random>
#include <set>

using namespace troupe;
using namespace troupe::cores;

namespace {

constexpr worker_id w{3};

push_id push(uint64_t number, uint32_t life = 1) {
  return {w, life_number{life}, sequence{number}};
}

push_window window_of(uint32_t in_flight) {
  push_window result{in_flight};
  result.set_life(w, life_number{1});
  return result;
}

} // namespace

TEST_CASE("a push is fresh once") {
  auto window = window_of(1);
  CHECK(window.admit(push(1)) == freshness::fresh);
  CHECK(window.admit(push(1)) == freshness::duplicate_pending);
  CHECK(window.done(push(1)));
  CHECK(!window.done(push(1)));
  CHECK(window.admit(push(1)) == freshness::duplicate_done);
  CHECK(window.admit(push(2)) == freshness::fresh);
}

TEST_CASE(
  "a worker that was told to go on pushes again, though its gradient is "
  "held") {
  auto window = window_of(1);
  CHECK(window.admit(push(1)) == freshness::fresh);
  CHECK(window.admit(push(2)) == freshness::out_of_order);
  window.answered(w);
  CHECK(window.admit(push(1)) == freshness::duplicate_done);
  CHECK(window.admit(push(2)) == freshness::fresh);
  CHECK(!window.done(push(1)));
  CHECK(window.done(push(2)));
}

TEST_CASE("a retry from long ago counts as done") {
  auto window = window_of(1);
  for (uint64_t number = 1; number <= 9; ++number) {
    CHECK(window.admit(push(number)) == freshness::fresh);
    CHECK(window.done(push(number)));
  }
  CHECK(window.admit(push(2)) == freshness::duplicate_done);
}

TEST_CASE("a worker may skip the number of a push that it gave up") {
  auto window = window_of(1);
  CHECK(window.admit(push(4)) == freshness::fresh);
  window.done(push(4));
  CHECK(window.admit(push(7)) == freshness::fresh);
  CHECK(window.admit(push(6)) == freshness::duplicate_done);
}

TEST_CASE("more pushes in flight than agreed are out of order") {
  auto window = window_of(1);
  CHECK(window.admit(push(0)) == freshness::out_of_order);
  CHECK(window.admit(push(1)) == freshness::fresh);
  CHECK(window.admit(push(2)) == freshness::out_of_order);
  window.done(push(1));
  CHECK(window.admit(push(2)) == freshness::fresh);
}

TEST_CASE("pushes in flight may overtake each other") {
  auto window = window_of(2);
  CHECK(window.admit(push(2)) == freshness::fresh);
  CHECK(window.admit(push(1)) == freshness::fresh);
  CHECK(window.admit(push(1)) == freshness::duplicate_pending);
  CHECK(window.admit(push(3)) == freshness::out_of_order);
  window.done(push(2));
  CHECK(window.admit(push(3)) == freshness::fresh);
  CHECK(window.admit(push(1)) == freshness::duplicate_pending);
}

TEST_CASE("only the life that is in the cluster may push") {
  auto window = window_of(1);
  CHECK(window.admit(push(1, 2)) == freshness::stale_incarnation);
  CHECK(window.admit(push(1)) == freshness::fresh);
  window.forget(w);
  CHECK(!window.done(push(1)));
  CHECK(window.admit(push(2)) == freshness::stale_incarnation);
  window.set_life(w, life_number{2});
  CHECK(window.admit(push(2)) == freshness::stale_incarnation);
  CHECK(window.admit(push(1, 2)) == freshness::fresh);
}

TEST_CASE(
  "a lossy link that repeats and reorders never makes a push fresh twice") {
  for (uint64_t seed = 0; seed < 100; ++seed) {
    INFO("seed " << seed);
    std::mt19937_64 random{seed};
    auto in_flight = static_cast<uint32_t>(1 + random() % 4);
    auto window = window_of(in_flight);
    std::set<uint64_t> unanswered; // at the worker
    std::map<uint64_t, int> fresh;
    uint64_t sent = 0;
    for (int i = 0; i < 500; ++i) {
      if (unanswered.size() < in_flight &&
          (unanswered.empty() || *unanswered.begin() + in_flight > sent + 1))
        unanswered.insert(++sent);
      auto at = unanswered.begin();
      std::advance(at, random() % unanswered.size());
      auto number = *at;
      auto found = window.admit(push(number));
      fresh[number] += found == freshness::fresh;
      REQUIRE(fresh[number] == 1);
      if (random() % 2 == 0) {
        window.done(push(number));
        if (random() % 2 == 0) // else the answer is lost
          unanswered.erase(number);
        REQUIRE(window.admit(push(number)) == freshness::duplicate_done);
      }
      if (random() % 8 == 0) {
        auto old = 1 + random() % sent; // a copy that was long on its way
        if (!unanswered.contains(old))
          REQUIRE(window.admit(push(old)) == freshness::duplicate_done);
      }
    }
  }
}
