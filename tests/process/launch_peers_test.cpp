// Peers that trainer_node launch starts on this machine.

#include "tests/process/launched.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <csignal>

using namespace troupe::testing;
using Catch::Matchers::ContainsSubstring;

TEST_CASE("one command runs peers, with an evaluator") {
  launched it{{"--topology", "peers", "--evaluator"}};
  CHECK(it.process.wait() == 0);
  INFO(it.process.report());
  CHECK(it.on.summary()["samples_applied"] == 4 * digits);
  CHECK(it.on.summary()["shards"] == 2);
  CHECK(it.on.summary()["final_accuracy"] > 0.5);
  check_replayed(it.on);
}

TEST_CASE("peers that die are started again, and join those that go on") {
  launched it{{"--topology", "peers", "--max-restarts", "2"}, {}, endless};
  it.process.await("checkpoint +step-");
  auto peers = children_of(it.process.pid());
  REQUIRE(peers.size() == 2);
  kill(peers[1], SIGKILL);
  it.process.await("\\[peer-1\\] ended with status 137: is started again");
  it.process.await("is started again[\\s\\S]*\\[peer-1\\] connected");
  it.process.signal(SIGTERM);
  CHECK(it.process.wait() == 75);
  INFO(it.process.report());
  CHECK(it.on.summary()["status"] == "stopped");
  check_replayed(it.on);
}

TEST_CASE("when the leading peer dies it joins the one that leads then") {
  launched it{{"--topology", "peers", "--max-restarts", "2"}, {}, endless};
  it.process.await("checkpoint +step-");
  kill(children_of(it.process.pid()).front(), SIGKILL);
  it.process.await("\\[peer-0\\] ended with status 137: is started again");
  it.process.await("is started again[\\s\\S]*\\[peer-1\\] joined +worker 1");
  it.process.signal(SIGTERM);
  CHECK(it.process.wait() == 75);
  INFO(it.process.report());
  check_replayed(it.on);
}

TEST_CASE("what peers are not started with is refused in one line") {
  auto refusal = [](const flags& own, const flags& rest) {
    launched it{flags{"--topology", "peers"} + own, rest};
    CHECK(it.process.wait() == 2);
    return it.process.err();
  };
  CHECK_THAT(refusal({}, {"false"}),
             ContainsSubstring("a command is a worker of a server"));
  CHECK_THAT(refusal({"--ps", "2"}, {}),
             ContainsSubstring("--ps 2: peers have a shard each"));
}
