// What dies, stalls or is told to stop while training, and what the others do.

#include "tests/process/process_fixture.hpp"

#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <csignal>
#include <iostream>
#include <random>
#include <thread>

using namespace troupe::testing;

namespace {

auto is_joined(uint32_t who, uint64_t life) {
  return [who, life](const json& line) {
    return line["kind"] == "joined" && is_about(line, who, life);
  };
}

/// Returns what the new worker has said.
std::string kill_a_worker(const std::string& policy, const flags& more = {},
                          uint64_t epochs = 10) {
  process_fixture on{recorded};
  auto server = on.listening_server(flags{"--policy", policy, "--workers", "3",
                                          "--epochs", std::to_string(epochs)} +
                                    more);
  auto workers = workers_of(on, 2);
  on.await(server, "two workers", is_joined(1, 1));
  workers.push_back(on.worker()); // It gets rank 2: the others have joined.
  auto begun = on.await(server, "gradients of worker 2", is_gradient_of(2));
  workers[2].kill();
  auto left = on.await(
    server, "that it left",
    [](const json& line) {
      return line["kind"] == "left" && is_about(line, 2, 1);
    },
    begun);
  on.await(server, "the others going on", is_kind("update"), left);
  workers[2] = on.worker();
  auto joined = on.await(server, "that it is back", is_joined(2, 2), left);
  on.await(server, "its gradients", is_gradient_of(2), joined);
  check_end(server, 0);
  check_ends_of(workers, 0);
  check_completed(on, epochs);
  return workers[2].out();
}

} // namespace

// -- workers die --------------------------------------------------------------

TEST_CASE("sync: a killed worker is missed and a new one takes part") {
  kill_a_worker("sync");
}

TEST_CASE("backup: a killed worker is missed and a new one takes part") {
  kill_a_worker("backup");
}

TEST_CASE("ssp: a killed worker is missed and a new one takes part") {
  kill_a_worker("ssp");
}

TEST_CASE("async: a killed worker is missed and a new one takes part",
          "[connections]") {
  kill_a_worker("async");
}

TEST_CASE("buffered: a killed worker is missed and a new one takes part") {
  kill_a_worker("buffered", {"--staleness-rule", "polynomial"});
}

TEST_CASE("quorum: a killed worker is missed and a new one takes part") {
  kill_a_worker("quorum(window=0.05)");
}

TEST_CASE("local steps: a killed worker is missed and a new one takes part") {
  auto said = kill_a_worker("async",
                            {"--local-steps", "3", "--overlap-steps", "1",
                             "--inner-optimizer", "adamw"},
                            25);
  CHECK(said.find("optimizer    of worker 2 is new: none was saved") !=
        said.npos);
}

TEST_CASE("backup: epochs end although a worker is always late") {
  process_fixture on{recorded};
  auto server = on.listening_server(
    {"--policy", "backup", "--workers", "3", "--epochs", "3"});
  auto workers = workers_of(on, 3);
  on.await(server, "training", is_kind("update"));
  auto stopped = true;
  eventually("the end of the run", [&] { // It runs a tenth of the time.
    stopped = !stopped;
    workers[0].signal(stopped ? SIGSTOP : SIGCONT);
    std::this_thread::sleep_for(std::chrono::milliseconds(stopped ? 45 : 0));
    return !server.running();
  });
  workers[0].signal(SIGCONT);
  check_end(server, 0);
  check_ends_of(workers, 0);
  check_completed(on, 3);
  CHECK(on.summary()["gradients_dropped"] > 0);
}

TEST_CASE("a run that stands still says for whom it waits") {
  process_fixture on;
  auto server = on.listening_server({"--workers", "2", "--max-steps", "20"});
  auto one = on.worker();
  server.await("waiting +no step for 10 s: waits for 1 of 2 workers");
  auto other = on.worker();
  check_end(server, 0);
  check_end(one, 0);
  check_end(other, 0);
  CHECK_FALSE(server.said("no step for 20 s"));
}

TEST_CASE("a worker that stalls is dropped and comes back", "[connections]") {
  process_fixture on{recorded};
  auto server = on.listening_server(
    {"--workers", "3", "--epochs", "15", "--liveness-timeout", "2"});
  auto workers = workers_of(on, 2, {"--liveness-timeout", "2"});
  on.await(server, "two workers", is_joined(1, 1));
  workers.push_back(on.worker({"--liveness-timeout", "2"}));
  auto begun = on.await(server, "gradients of worker 2", is_gradient_of(2));
  workers[2].signal(SIGSTOP);
  auto left = on.await(server, "that it left", is_kind("left"), begun);
  CHECK(is_about(on.metrics()[left], 2, 1));
  on.await(server, "the others going on", is_kind("update"), left);
  workers[2].signal(SIGCONT);
  auto joined = on.await(server, "that it is back", is_joined(2, 2), left);
  on.await(server, "its gradients", is_gradient_of(2), joined);
  check_end(server, 0);
  check_ends_of(workers, 0);
  check_completed(on, 15);
}

TEST_CASE("the last samples of a worker that stands still go to the others") {
  process_fixture on{recorded};
  // The worker's silence is noticed too late to matter.
  const flags patient{"--liveness-timeout", "600"};
  auto server = on.listening_server(
    patient + flags{"--policy", "async", "--workers", "2", "--epochs", "5",
                    "--hang-timeout", "0"});
  auto one = on.worker(patient);
  auto other = on.worker(patient);
  on.await(server, "its gradients", is_gradient_of(0));
  on.await(server, "those of the other", is_gradient_of(1));
  one.signal(SIGSTOP);
  check_end(server, 0);
  one.kill();
  check_end(other, 0);
  check_completed(on, 5);
}

TEST_CASE("a worker that is told to stop leaves and the others go on") {
  process_fixture on{recorded};
  auto server = on.listening_server({"--workers", "2", "--epochs", "10"});
  auto workers = workers_of(on, 2);
  on.await(server, "training", is_step(3));
  workers[0].signal(SIGTERM);
  check_end(workers[0], 0);
  CHECK(workers[0].err().empty());
  auto left = on.await(server, "that it left", is_kind("left"));
  on.await(server, "the other going on", is_kind("update"), left);
  check_end(server, 0);
  check_end(workers[1], 0);
  check_completed(on, 10);
}

// -- the parameter server dies ------------------------------------------------

TEST_CASE("a killed parameter server is resumed and its workers come back",
          "[connections]") {
  process_fixture on{recorded};
  const flags what{"--workers",         "3",  "--epochs", "15",
                   "--checkpoint-freq", "10", "--policy", "ssp"};
  auto server = on.listening_server(what);
  auto workers = workers_of(on, 3);
  auto saved = on.await(server, "a checkpoint", is_kind("checkpoint"));
  on.await(server, "more than it holds", is_kind("update"), saved);
  server.kill();
  auto before = on.metrics().size();
  server = on.server(what + flags{"--resume", "auto"});
  auto resumed = on.await(server, "that it goes on", is_kind("resumed"));
  CHECK(resumed >= before - 1);
  CHECK(on.metrics()[resumed]["incarnation"] == 2);
  for (uint32_t i = 0; i < 3; ++i)
    on.await(server, "worker " + std::to_string(i), is_gradient_of(i), resumed);
  check_end(server, 0);
  check_ends_of(workers, 0);
  auto kept = check_completed(on, 15);
  CHECK(kept.resumes == 1);
  CHECK(kept.rolled_back > 0);
  CHECK(server.said("resumed +from step \\d+; " +
                    std::to_string(kept.rolled_back) +
                    " updates made after it were rolled back"));
}

TEST_CASE("a parameter server that stalls is waited for", "[connections]") {
  process_fixture on{recorded};
  const flags soon{"--liveness-timeout", "2"};
  auto server =
    on.listening_server(soon + flags{"--workers", "2", "--epochs", "1000"});
  auto workers = workers_of(on, 2, soon);
  on.await(server, "training", is_step(5));
  server.signal(SIGSTOP);
  for (auto& worker : workers)
    worker.await("waiting +for the parameter server");
  server.signal(SIGCONT);
  // Neither is quick enough to end the run before the other is back.
  for (auto& worker : workers)
    worker.await("waiting[\\s\\S]*connected");
  auto both = on.metrics().size();
  for (uint32_t who : {0, 1})
    on.await(server, "both training again", is_gradient_of(who), both);
  server.signal(SIGINT);
  check_end(server, 75);
  check_ends_of(workers, 0);
  CHECK(on.summary()["samples_applied"] == committed_of(on.metrics()).samples);
  check_replayed(on);
}

TEST_CASE("nodes give up when their parameter server is gone for good") {
  process_fixture on;
  const flags soon{"--connect-timeout", "1"};
  auto server = on.listening_server({"--workers", "1", "--epochs", "1000"});
  auto evaluator = on.evaluator(soon);
  auto worker = on.worker(soon);
  evaluator.await("connected");
  on.await(server, "training", is_step(2));
  server.kill();
  for (auto* node : {&worker, &evaluator}) {
    check_end(*node, 1);
    CHECK(node->err().starts_with("trainer_node: no parameter server at "));
  }
}

TEST_CASE("workers wait for a parameter server that is not there yet") {
  process_fixture on{recorded};
  auto workers = workers_of(on, 2);
  for (auto& worker : workers)
    worker.await("waiting +for the parameter server at 127.0.0.1:" + on.port());
  auto server = on.server({"--workers", "2", "--epochs", "1"});
  check_end(server, 0);
  check_ends_of(workers, 0);
  check_completed(on, 1);
}

TEST_CASE("a worker gives up when no parameter server comes") {
  process_fixture on;
  auto worker = on.worker({"--connect-timeout", "1"});
  check_end(worker, 1);
  CHECK(worker.err() ==
        "trainer_node: no parameter server at 127.0.0.1:" + on.port() +
          " within 1 s (nobody answers there); check [cluster] host and port, "
          "or raise --connect-timeout\n");
}

// -- signals ------------------------------------------------------------------

TEST_CASE("the parameter server stops at a signal and goes on later") {
  process_fixture on{recorded};
  const flags what{"--workers",         "2",   "--epochs", "12",
                   "--checkpoint-freq", "1000"};
  auto server = on.listening_server(what);
  auto workers = workers_of(on, 2);
  on.await(server, "training", is_step(5));
  server.signal(SIGINT);
  check_end(server, 75);
  check_ends_of(workers, 0);
  auto summary = on.summary();
  CHECK(summary["status"] == "stopped");
  auto kept = committed_of(on.metrics());
  CHECK(summary["samples_applied"] == kept.samples);
  REQUIRE(checkpoints_of(on.run()).size() == 1);

  server = on.listening_server(what + flags{"--resume", "auto"});
  workers = workers_of(on, 2);
  check_end(server, 0);
  check_ends_of(workers, 0);
  auto all = check_completed(on, 12);
  CHECK(all.resumes == 1);
  CHECK(all.rolled_back == 0);
}

TEST_CASE("a second Ctrl-C ends the parameter server at once") {
  process_fixture on;
  auto server = on.listening_server({"--workers", "1", "--epochs", "1000"});
  auto evaluator = on.evaluator({"--connect-timeout", "1"});
  evaluator.await("connected .* as evaluator");
  auto worker = on.worker({"--connect-timeout", "1"});
  on.await(server, "training", is_step(2));
  evaluator.signal(SIGSTOP); // The server would wait for its score.
  server.signal(SIGINT);
  server.await("stopping ");
  std::this_thread::sleep_for(std::chrono::milliseconds(150));
  server.signal(SIGINT);
  check_end(server, 130);
  evaluator.kill();
}

TEST_CASE("a run in one process stops at each of the signals") {
  for (auto number : {SIGINT, SIGTERM, SIGUSR1, SIGHUP}) {
    process_fixture on;
    auto all = on.simulate({"--workers", "2", "--epochs", "1000"});
    on.await(all, "training", is_step(2));
    all.signal(number);
    all.signal(number); // As of a supervisor, to the process and its group.
    check_end(all, 75);
    CHECK(on.summary()["status"] == "stopped");
    CHECK(checkpoints_of(on.run()).size() >= 1);
    CHECK(all.err().empty());
  }
}

// -- anything, at any moment --------------------------------------------------

namespace {

/// Kills a worker, then the parameter server, at moments of the seed's choice.
void kill_both(uint64_t seed) {
  std::mt19937_64 random{seed};
  auto any = [&](double low, double high) {
    return std::uniform_real_distribution<double>{low, high}(random);
  };
  const char* policies[] = {"sync", "backup", "ssp", "async"};
  const flags what{"--workers",         "3",
                   "--epochs",          "4",
                   "--checkpoint-freq", std::to_string(1 + random() % 8),
                   "--policy",          policies[seed % 4]};
  auto reaches = [](double epoch) {
    return [epoch](const json& line) {
      return line["kind"] == "update" && line["epoch"].get<double>() >= epoch;
    };
  };
  auto nap = [&] {
    std::this_thread::sleep_for(
      std::chrono::microseconds(static_cast<int64_t>(any(0, 2e5))));
  };

  process_fixture on{recorded};
  auto server = on.server(what);
  auto workers = workers_of(on, 3);
  auto first = any(0, 1.5);
  on.await(server, "epoch " + std::to_string(first), reaches(first));
  nap();
  auto& victim = workers[random() % 3];
  victim.kill();
  victim = on.worker();
  auto second = first + any(0, 1);
  on.await(server, "epoch " + std::to_string(second), reaches(second));
  nap();
  server.kill();
  server = on.server(what + flags{"--resume", "auto"});
  check_end(server, 0);
  check_ends_of(workers, 0);
  auto kept = check_completed(on, 4);
  std::cout << "repetition " << seed << ": " << what.back() << ", "
            << kept.rolled_back << " updates rolled back, "
            << kept.updates.size() << " kept" << std::endl;
}

} // namespace

TEST_CASE("kill -9 of a worker, then of the parameter server, never hangs",
          "[connections]") {
  auto first = wished("TROUPE_FAULT_FIRST_SEED", 0);
  auto end = first + wished("TROUPE_FAULT_REPETITIONS", 3);
  for (auto seed = first; seed < end; ++seed) {
    INFO("seed " << seed);
    kill_both(seed);
  }
}
