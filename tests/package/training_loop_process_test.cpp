// A program with a training loop of its own, as its users start it.

#include "tests/process/process_fixture.hpp"

#include <catch2/catch_test_macros.hpp>

#include <chrono>
#include <csignal>
#include <thread>

using namespace troupe::testing;

namespace {

const flags remote{"--mode", "remote-forward"};

const flags short_run{"--network",    "mnist_net", "--workers",   "2",
                      "--batch-size", "16",        "--max-steps", "20",
                      "--threads",    "1"};

process_fixture with_loop() {
  return process_fixture{TROUPE_REMOTE_TRAINER};
}

bool tells_accuracy(child& who) {
  auto at = who.out().find("training complete!\naccuracy 0.");
  return at != std::string::npos;
}

} // namespace

TEST_CASE("the tutorial's loop makes the weights of Troupe's own") {
  process_fixture plain;
  auto without = plain.simulate(short_run);
  check_end(without, 0);
  for (const auto& placement :
       {flags{}, flags{"--placement", "conv*=ps:0,*=worker"}}) {
    auto on = with_loop();
    auto all = on.simulate(short_run + remote + placement);
    check_end(all, 0);
    CHECK(on.summary()["weights_sha256"] == plain.summary()["weights_sha256"]);
    CHECK(on.summary()["contexts_left"] == 0);
    CHECK(tells_accuracy(all));
  }
  for (const char* path : {"shm", "stream", "chunked"}) {
    INFO(path);
    auto on = with_loop();
    auto server = on.listening_server(short_run + remote);
    auto one = on.worker({"--transport", path});
    auto other = on.worker({"--transport", path});
    auto scores = on.evaluator();
    for (auto* who : {&server, &one, &other, &scores})
      check_end(*who, 0);
    CHECK(on.summary()["weights_sha256"] == plain.summary()["weights_sha256"]);
    CHECK(tells_accuracy(one));
    CHECK(tells_accuracy(other));
  }
}

TEST_CASE("trainers with a loop of their own die, and their server returns") {
  auto on = with_loop();
  const flags what =
    flags{"--network",         "mnist_net", "--workers", "2",
          "--policy",          "async",     "--epochs",  "4",
          "--threads",         "1",         "--lr",      "0.03",
          "--checkpoint-freq", "5"} +
    remote;
  auto server = on.listening_server(what);
  auto one = on.worker();
  auto other = on.worker();
  for (uint64_t step : {4, 8}) {
    on.await(server, "training", is_step(step));
    other.signal(SIGKILL);
    other.wait();
    other = on.worker();
  }
  on.await(server, "training", is_step(14));
  server.signal(SIGKILL);
  server.wait();
  auto again = on.listening_server(what + flags{"--resume", "auto"});
  for (auto* who : {&again, &one, &other})
    check_end(*who, 0);
  check_completed(on, 4);
  CHECK(on.summary()["contexts_left"] == 0);
}

TEST_CASE("a trainer with a loop of its own is stopped by a signal") {
  auto on = with_loop();
  auto server = on.listening_server(flags{"--network", "mnist_net", "--workers",
                                          "1", "--policy", "async", "--epochs",
                                          "2", "--threads", "1"} +
                                    remote);
  auto one = on.worker();
  on.await(server, "training", is_step(2));
  one.signal(SIGINT);
  check_end(one, 0);
  CHECK(one.out().find("training complete!") != std::string::npos);
  CHECK_FALSE(tells_accuracy(one));
  auto other = on.worker();
  check_end(server, 0);
  check_end(other, 0);
  check_completed(on, 2);
}

TEST_CASE("a loop that does not return is waited for until a signal comes") {
  process_fixture on{TROUPE_STUCK_TRAINER};
  auto all = on.simulate(short_run + remote + flags{"--max-steps", "3"});
  all.await("training is over");
  std::this_thread::sleep_for(std::chrono::seconds(4)); // Others get 3 s.
  CHECK(all.running());
  all.signal(SIGTERM);
  check_end(all, 0);
  CHECK(on.summary()["status"] == "completed");
}

TEST_CASE("settings that a loop of its own cannot serve are refused") {
  for (const auto& [what, line] :
       {std::pair{flags{}, "needs --mode remote-forward"},
        std::pair{flags{"--mode", "pipeline", "--stages", "2"},
                  "needs --mode remote-forward"},
        std::pair{remote + flags{"--clock", "virtual"},
                  "does not run on --clock virtual; use --clock real"},
        std::pair{remote + flags{"--micro-batch-size", "4"},
                  "gets whole batches: leave --micro-batch-size out"}}) {
    auto on = with_loop();
    auto all = on.simulate(short_run + what);
    check_end(all, 2);
    INFO(all.report());
    CHECK(all.err() == std::string{"trainer_node: this program trains with a "
                                   "loop of its own, which "} +
                         line + "\n");
    CHECK_FALSE(std::filesystem::exists(on.run() / "metrics.jsonl"));
  }
}
