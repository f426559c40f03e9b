// An operator changes the policy of a run while it goes on.

#include "actors/log_files/event_log_file.hpp"
#include "tests/process/peers.hpp"
#include "tests/process/trusted_cluster.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <csignal>

using namespace troupe;
using namespace troupe::testing;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::StartsWith;

namespace {

const flags endless{"--workers",         "2",  "--epochs", "100000",
                    "--checkpoint-freq", "40", "--policy", "sync"};

child ctl(process_fixture& on, const flags& arguments) {
  return on.start("ctl",
                  flags{"ctl", "--host", "127.0.0.1", "--port", on.port()} +
                    arguments);
}

/// The run takes the policy. While a checkpoint is being written it refuses,
/// and is asked again.
void change(process_fixture& on, const std::string& policy,
            const flags& more = {}) {
  eventually("a run with " + policy, [&] {
    auto asks = ctl(on, flags{"policy", policy} + more);
    auto status = asks.wait();
    INFO(asks.report());
    if (status == 1)
      CHECK_THAT(asks.err(),
                 ContainsSubstring("a checkpoint is being written"));
    else
      CHECK(status == 0);
    return status == 0;
  });
}

void check_refused(process_fixture& on, const flags& arguments, int status,
                   const std::string& line) {
  auto asks = ctl(on, arguments);
  check_end(asks, status);
  INFO(asks.report());
  CHECK_THAT(asks.err(), StartsWith("trainer_node: "));
  CHECK_THAT(words_of(asks), ContainsSubstring(line));
}

/// The policies that the event logs of the run say it was given.
std::vector<std::string> changes_in(const std::filesystem::path& event_log) {
  std::vector<std::string> out;
  recording::event_log_reader events{event_log};
  for (proto::LogEvent one; events.next(one);)
    if (one.has_policy_changed())
      out.push_back(one.policy_changed().policy());
  return out;
}

} // namespace

TEST_CASE("a run goes on with another policy, and so do its next lives") {
  process_fixture on{recorded};
  auto server = on.listening_server(on.of_writer() + endless);
  auto workers = workers_of(on, 2, flags{"--policy", "sync"});
  on.await(server, "training", is_step(45));
  change(on, "ssp(staleness=2)");
  auto is_change = [](const json& line) {
    return line["kind"] == "policy" && line["policy"] == "ssp(staleness=2)";
  };
  auto at = on.await(server, "the change", is_change);
  on.await(server, "training after it", is_step(100), at);
  CHECK_THAT(slurp(on.run() / "config.ini"),
             ContainsSubstring("policy.name was sync, is ssp"));
  // The run is known by what it has now, also if it begins from a checkpoint
  // that was made before.
  server.kill();
  server.wait();
  server = on.listening_server(on.of_writer() + endless +
                               flags{"--resume", "auto", "--policy", "bsp"});
  CHECK(server.said("--policy bsp is what the run had until it was changed "
                    "while it ran; --change policy.name=bsp goes back"));
  server.await("resumed +from step [1-9]");
  // Also who joins may say what the run had.
  auto late = on.worker(on.of_worker() + flags{"--policy", "sync"});
  late.await("connected");
  auto other = on.worker(impatient + flags{"--policy", "async"});
  check_end(other, 2);
  CHECK_THAT(words_of(other), ContainsSubstring("[policy] name = async here"));
  change(on, "quorum(quorum=2,window=0.01)");
  auto before = on.metrics().size();
  on.await(server, "training", is_kind("update"), before);
  change(on, "sync");
  before = on.metrics().size();
  on.await(server, "training", is_kind("update"), before + 20);
  server.signal(SIGINT);
  check_end(server, 75);
  CHECK(on.summary()["policy"] == "sync");
  CHECK(changes_in(on.run() / "tape-1.pb") ==
        std::vector<std::string>{"ssp(staleness=2)"});
  CHECK(changes_in(on.run() / "tape-2.pb").size() == 2);
  check_replayed(on);
}

TEST_CASE("peers go on with another policy") {
  process_fixture on{recorded};
  auto all = start_peers(on, 2, {"--epochs", "100000", "--local-steps", "2"});
  on.await(all[0], "training", is_step(5));
  change(on, "async");
  auto from = on.metrics().size();
  on.await(all[0], "training", is_kind("update"), from + 20);
  all[0].signal(SIGINT);
  check_ends_of(all, 75);
  CHECK(on.summary()["policy"] == "async");
  check_replayed(on);
}

TEST_CASE("what cannot be changed is a line each") {
  process_fixture on;
  check_refused(on, {}, 2, "ctl needs what is to change");
  check_refused(on, {"policy", "sometimes"}, 2,
                "policy sometimes: must be one of");
  check_refused(on, {"--insecure-network", "policy", "sync"}, 1,
                "127.0.0.1:" + on.port() + ": ");
  auto server = on.listening_server(endless);
  auto workers = workers_of(on, 2);
  on.await(server, "training", is_step(5));
  check_refused(on, {"policy", "quorum(quorum=3)"}, 2,
                "must be at most the number of workers, 2");
  check_refused(on, {"policy", "ssp(staleness=x)"}, 2, "staleness");
  server.signal(SIGINT);
  check_end(server, 75);
  CHECK(on.summary()["policy"] == "sync");
}

TEST_CASE("who may change a run shows a certificate of that role") {
  SECTION("not one of a worker") {
    trusted_cluster it;
    auto& on = it.on;
    auto server = on.listening_server(it.dir("ps-0", "ps") + endless);
    auto of_workers = it.dir("workers", "worker");
    auto workers = workers_of(on, 2, of_workers);
    on.await(server, "training", is_step(5));
    check_refused(on, flags{"policy", "async"} + of_workers, 2,
                  "is not for the role operator: issue one with --role "
                  "operator");
    change(on, "async", it.dir("me", "operator"));
    server.signal(SIGINT);
    check_end(server, 75);
    CHECK(on.summary()["policy"] == "async");
  }
  SECTION("not the token that workers have, too") {
    trusted_cluster it;
    auto& on = it.on;
    auto token = it.token("token", "0123456789abcdef0123456789abcdef");
    auto server = on.listening_server(token + endless);
    auto workers = workers_of(on, 2, token);
    on.await(server, "training", is_step(5));
    check_refused(on, flags{"policy", "async"} + token, 2,
                  "a token is not enough for an operator");
    server.signal(SIGINT);
    check_end(server, 75);
  }
}
