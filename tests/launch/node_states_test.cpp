#include "apps/launch/node_states.hpp"

#include <catch2/catch_test_macros.hpp>

#include <vector>

using namespace troupe::app;

TEST_CASE("the line about a launch's processes names those in trouble") {
  std::vector<node_state> all{{"ps", ""}, {"worker-0", ""}, {"worker-1", "b"}};
  CHECK(states_line(all, 60) == "all 3 run");
  all[2].trouble = "starts again";
  CHECK(states_line(all, 60) == "2 of 3 run; worker-1 (b) starts again");
  all[1].trouble = "has ended";
  CHECK(states_line(all, 80) ==
        "1 of 3 run; worker-0 has ended, worker-1 (b) starts again");
}

TEST_CASE("the line about a launch's processes fits into its terminal") {
  std::vector<node_state> all(50, {"worker-7", "10.0.0.3", "starts again"});
  CHECK(states_line(all, 20) == "0 of 50 run");
  CHECK(states_line(all, 70) ==
        "0 of 50 run; worker-7 (10.0.0.3) starts again, 49 more do not");
  for (size_t columns = 0; columns < 200; ++columns)
    CHECK(states_line(all, columns).size() <= columns);
}
