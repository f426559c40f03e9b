#include "apps/lab/simulation/fault_draw.hpp"

#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <map>

using namespace troupe;
using namespace troupe::config;
using cores::draw_faults;

TEST_CASE("drawn faults are those that a file of them would hold") {
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    auto drawn = draw_faults({seed, 10, 30}, 3);
    std::string text;
    for (const auto& one : drawn)
      text += std::to_string(one.at) + " " + to_string(one) + "\n";
    CHECK((parse_faults(text, "drawn", 3) == drawn));
  }
}

TEST_CASE("a seed always gives the same faults, another one others") {
  CHECK((draw_faults({7, 6, 40}, 4) == draw_faults({7, 6, 40}, 4)));
  CHECK((draw_faults({7, 6, 40}, 4) != draw_faults({8, 6, 40}, 4)));
}

TEST_CASE("all kinds are drawn, and somebody always stays") {
  std::map<fault_kind, int> kinds;
  for (uint64_t seed = 1; seed <= 500; ++seed) {
    auto drawn = draw_faults({seed, 20, 30}, 2);
    int for_good = 0;
    for (const auto& one : drawn) {
      ++kinds[one.what];
      CHECK(one.at >= 0);
      CHECK(one.at <= 30);
      for_good += one.what == fault_kind::crash && !one.lasts;
    }
    CHECK(for_good <= 1);
  }
  CHECK(kinds.size() == config::fault_kinds);
  // Of 10,000, of ten kinds: half of the server's crashes are failures.
  auto failures = kinds[fault_kind::fail_server];
  CHECK(failures > 450);
  CHECK(kinds[fault_kind::crash_server] > 450);
  kinds[fault_kind::crash_server] += failures;
  kinds.erase(fault_kind::fail_server);
  for (auto [what, count] : kinds)
    CHECK(count > 900);
}
