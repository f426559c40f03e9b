#include "apps/cli/joint_end.hpp"

#include <catch2/catch_test_macros.hpp>

#include <vector>

using namespace troupe;

namespace {

struct peer_node {
  std::vector<run_end> ends;
  app::joint_end uut{[this](const run_end& how) {
    ends.push_back(how);
  }};
};

} // namespace

TEST_CASE("a peer ends when its worker and its shard have ended") {
  peer_node on;
  on.uut.shard_ended({0, {}});
  CHECK(on.ends.empty());
  on.uut.worker_ended({0, {}});
  REQUIRE(on.ends.size() == 1);
  CHECK(on.ends[0].status == 0);
}

TEST_CASE("a worker that fails leaves the node to its shard") {
  peer_node on;
  on.uut.worker_ended({1, "no"});
  CHECK(on.ends.empty());
  on.uut.shard_ended({0, {}});
  REQUIRE(on.ends.size() == 1);
  CHECK(on.ends[0].status == 1);
  CHECK(on.ends[0].line == "no");
}

TEST_CASE("a shard that fails or is stopped ends the node at once") {
  peer_node on;
  on.uut.shard_ended({75, "stopped"});
  REQUIRE(on.ends.size() == 1);
  CHECK(on.ends[0].status == 75);
  on.uut.worker_ended({1, {}});
  CHECK(on.ends.size() == 1);
}
