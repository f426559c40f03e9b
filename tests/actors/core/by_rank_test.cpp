#include "actors/policies/by_rank.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators_range.hpp>

#include <map>
#include <random>

using namespace troupe;
using policies::by_rank;

TEST_CASE("by_rank does what a map does, in a random history") {
  auto seed = GENERATE(range(1u, 21u));
  CAPTURE(seed);
  std::mt19937 random{seed};
  std::map<worker_id, int> expected;
  by_rank<int> found;
  for (int i = 0; i < 400; ++i) {
    worker_id who{static_cast<uint32_t>(random() % 40)};
    switch (random() % 4) {
    case 0:
      CHECK(found.try_emplace(who, i).second ==
            expected.try_emplace(who, i).second);
      break;
    case 1:
      found[who] = i;
      expected[who] = i;
      break;
    case 2:
      CHECK(found.erase(who) == expected.erase(who));
      break;
    default:
      CHECK(found.contains(who) == expected.contains(who));
      if (auto at = found.find(who); at != found.end()) {
        CHECK(at->second == expected.at(who));
        CHECK(found.at(who) == at->second);
        found.erase(at);
        expected.erase(who);
      }
    }
    CHECK(found.size() == expected.size());
    CHECK(found.empty() == expected.empty());
    auto copy = found;
    CHECK(
      std::vector<std::pair<worker_id, int>>(copy.begin(), copy.end()) ==
      std::vector<std::pair<worker_id, int>>(expected.begin(), expected.end()));
  }
  found.clear();
  CHECK(found.begin() == found.end());
}

TEST_CASE("a rank that is not there, or can be none, throws") {
  by_rank<int> ranks;
  ranks[worker_id{3}] = 1;
  CHECK_THROWS_AS(ranks.at(worker_id{2}), std::out_of_range);
  CHECK_THROWS_AS(ranks.at(worker_id{4}), std::out_of_range);
  CHECK_THROWS_AS(ranks[worker_id{policies::most_ranks}], std::length_error);
  CHECK(ranks.size() == 1);
}
