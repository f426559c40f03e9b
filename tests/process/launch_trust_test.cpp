// What the processes of a launch know each other by, without a word of the
// user's.

#include "tests/process/launched.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <sched.h>

#include <csignal>
#include <cstdlib>

using namespace troupe::testing;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::StartsWith;

TEST_CASE("who has not the token of a launch cannot join it") {
  launched it{{}, {}, endless};
  auto server = command_of(it.find("ps"));
  auto token = value_of(server, "--token-file");
  auto secret = slurp(token);
  CHECK(secret.size() > 30);
  for (auto one : children_of(it.process.pid()))
    CHECK(command_of(one).find(secret) == std::string::npos);
  flags by_hand{
    "--role", "worker",    "--port", value_of(server, "--port"), "--rank",
    "2",      "--threads", "1",      "--connect-timeout",        "1"};
  auto stranger = it.on.start("stranger", by_hand);
  check_end(stranger, 1);
  CHECK_THAT(stranger.err(),
             ContainsSubstring("the token is not that of the run"));
  auto friendly = it.on.start("worker", by_hand + flags{"--token-file", token});
  friendly.await("connected ");
  it.process.signal(SIGTERM);
  CHECK(it.process.wait() == 75);
}

TEST_CASE("who joins a launch leaves its ranks to its own workers") {
  launched it{{}, {}, endless};
  auto server = command_of(it.find("ps"));
  it.process.await("\\[worker-1\\] connected");
  kill(it.find("worker .*--rank 1 "), SIGTERM);
  it.process.await("left +worker 1");
  auto joined =
    it.on.start("joined", {"--role", "worker", "--threads", "1", "--port",
                           value_of(server, "--port"), "--token-file",
                           value_of(server, "--token-file")});
  joined.await("connected +to [^ ]+ as worker 2");
  it.process.signal(SIGTERM);
  CHECK(it.process.wait() == 75);
}

TEST_CASE("a launch beyond loopback encrypts what its processes say") {
  if (unshare(CLONE_NEWNET) != 0 ||
      std::system("ip link set lo up && ip addr add 10.23.0.1/32 dev lo") != 0)
    SKIP("this needs the right to make a network, and ip");
  launched it{{"--ps", "2"}, {}, {"--epochs", "4", "--host", "10.23.0.1"}};
  auto server = command_of(it.find("ps"));
  auto key = value_of(server, "--tls-key");
  CHECK_THAT(slurp(key), StartsWith("-----BEGIN"));
  CHECK(command_of(it.find("worker")).find(key) == std::string::npos);
  auto stranger =
    it.on.start("stranger", {"--role", "worker", "--host", "10.23.0.1",
                             "--port", value_of(server, "--port"),
                             "--insecure-network", "--connect-timeout", "1"});
  check_end(stranger, 1);
  CHECK(it.process.wait() == 0);
  INFO(it.process.report());
  CHECK(it.on.summary()["samples_applied"] == 4 * digits);
}
