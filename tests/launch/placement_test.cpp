#include "apps/launch/placement.hpp"

#include <catch2/catch_test_macros.hpp>

#include <vector>

using namespace troupe::app;

namespace {

using places = std::vector<size_t>;

places placed(const std::vector<uint32_t>& slots, size_t workers,
              bool with_server = true) {
  return place_workers(slots, workers, with_server);
}

} // namespace

TEST_CASE("hosts get workers in turn, the first one last", "[launch]") {
  CHECK(placed({1, 1, 1}, 2) == places{1, 2});
  CHECK(placed({1, 1, 1}, 4) == places{1, 2, 0, 1});
  CHECK(placed({1, 1, 1}, 3, false) == places{0, 1, 2});
}

TEST_CASE("a host with more slots gets more workers", "[launch]") {
  CHECK(placed({1, 3, 1}, 4) == places{1, 2, 1, 1});
  CHECK(placed({4, 4}, 7) == places{0, 1, 0, 1, 0, 1, 1});
}

TEST_CASE("when all slots are taken the turns begin anew", "[launch]") {
  CHECK(placed({2, 1}, 6, false) == places{0, 1, 0, 0, 1, 0});
  CHECK(placed({1}, 3, false) == places{0, 0, 0});
}
