// A number of workers that varies, with nodes that come, go and are killed.

#include "tests/process/launched.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <csignal>

using namespace troupe::testing;
using Catch::Matchers::ContainsSubstring;

namespace {

std::function<bool(const json&)> is_pause(bool paused) {
  return [paused](const json& line) {
    return line["kind"] == "members" && line["paused"] == paused;
  };
}

} // namespace

TEST_CASE("a run begins with the fewest workers, and pauses below them") {
  process_fixture on{recorded};
  auto server = on.listening_server(
    endless + flags{"--workers", "2:3", "--join-timeout", "1", "--policy",
                    "async", "--global-batch-size", "64"});
  auto workers = workers_of(on, 2);
  on.await(server, "the first steps", is_step(3));
  workers.push_back(on.worker());
  auto at = on.await(server, "a third worker", is_gradient_of(2));

  auto further = on.worker();
  check_end(further, 1);
  CHECK_THAT(further.err(),
             ContainsSubstring("the run has its most workers, 3"));

  workers[0].kill();
  workers[1].kill();
  at = on.await(server, "a pause", is_pause(true), at);
  server.await("paused +1 worker, waits for 1 more: worker 0 \\([^ ]+, pid "
               "\\d+\\), worker 1");
  auto before = on.metrics().size();
  auto fourth = on.worker();
  at = on.await(server, "its end", is_pause(false), at);
  server.await("continued +with 2 workers");
  on.await(server, "a step after it", is_kind("update"), at);
  CHECK(before < on.metrics().size());

  server.signal(SIGTERM);
  check_end(server, 75);
  check_end(workers[2], 0);
  check_end(fourth, 0);
  uint64_t members = 0;
  auto paused = false;
  for (const auto& line : on.metrics()) {
    if (line["kind"] == "members") {
      members = line["members"];
      paused = line["paused"];
      CHECK(paused == (members < 2));
    }
    if (line["kind"] == "update")
      CHECK(!paused);
  }
  CHECK(members == 2);
  check_replayed(on);
}

TEST_CASE("a run of varying size goes on with its fewest workers at once") {
  process_fixture on{recorded};
  auto all = endless + flags{"--workers", "1:3", "--policy", "async"};
  auto first = on.listening_server(all + flags{"--join-timeout", "0.1"});
  auto worker = on.worker();
  on.await(first, "a checkpoint", is_kind("checkpoint"));
  first.kill();
  auto from = on.metrics().size();
  auto second = on.listening_server(all + flags{"--resume", "auto"});
  on.await(second, "further steps", is_kind("update"), from);
  CHECK(!second.said("waiting +no step"));
  second.signal(SIGTERM);
  check_end(second, 75);
  check_end(worker, 0);
  check_replayed(on);
}

TEST_CASE("with fewer than the fewest workers a run does not begin") {
  process_fixture on;
  auto server = on.listening_server(
    {"--workers", "2:3", "--join-timeout", "0.2", "--max-steps", "20"});
  auto first = on.worker();
  on.await(server, "a worker", is_kind("joined"));
  server.await("waiting +no step for \\d+ s: waits for 1 more worker");
  for (const auto& line : on.metrics())
    CHECK(line["kind"] != "update");
  auto second = on.worker();
  check_end(server, 0);
  check_end(first, 0);
  check_end(second, 0);
  CHECK(on.summary()["status"] == "completed");
}

TEST_CASE("a program that ends with status 64 is not started again") {
  launched it{{"--max-restarts", "5"}, {"/bin/sh", "-c", "exit 64"}};
  CHECK(it.process.wait() == 1);
  INFO(it.process.report());
  CHECK_THAT(it.process.out(),
             ContainsSubstring("[worker-0] ended with status 64: asks not to "
                               "be started again"));
  CHECK(!it.process.said("is started again"));
}

TEST_CASE("a worker that dies before each first gradient is given up") {
  launched it{{"--max-restarts", "100", "--no-progress-limit", "2"},
              {"/bin/sh", "-c", "exit 3"}};
  CHECK(it.process.wait() == 1);
  INFO(it.process.report());
  for (std::string name : {"[worker-0]", "[worker-1]"})
    CHECK_THAT(it.process.out(),
               ContainsSubstring(
                 name + " ended with status 3: is not started again, since its "
                        "last 3 starts brought no gradient into the weights"));
}

TEST_CASE("a worker that has contributed is started again") {
  launched it{{"--max-restarts", "5", "--no-progress-limit", "1"}, {}, endless};
  auto ended = std::string{};
  for (int time = 0; time < 3; ++time) {
    it.process.await(ended + "\\[worker-1\\] connected");
    auto from = it.on.metrics().size();
    eventually("a gradient of it", [&] {
      auto all = it.on.metrics();
      return std::any_of(all.begin() + static_cast<long>(from), all.end(),
                         is_gradient_of(1));
    });
    kill(it.find("worker .*--rank 1"), SIGKILL);
    ended += "\\[worker-1\\] ended with status 137: is started again[\\s\\S]*";
    it.process.await(ended);
  }
  it.process.signal(SIGTERM);
  CHECK(it.process.wait() == 75);
  INFO(it.process.report());
  CHECK(!it.process.said("first +gradient"));
  check_replayed(it.on);
}
