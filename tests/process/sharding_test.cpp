// Workers with files of their own, in processes of their own; the parameter
// server has none.

#include "tests/data/idx_files.hpp"
#include "tests/process/process_fixture.hpp"
#include "tests/support/event_log_account.hpp"

#include <catch2/catch_test_macros.hpp>

#include <csignal>

using namespace troupe::testing;
using troupe::test::event_log_account;
using troupe::test::write_mnist;

namespace {

const flags of_the_run{"--dataset",    "mnist", "--sharding", "local",
                       "--batch-size", "8",     "--workers",  "3",
                       "--policy",     "async", "--tape"};

auto is_joined(uint32_t who, uint64_t life) {
  return [who, life](const json& line) {
    return line["kind"] == "joined" && is_about(line, who, life);
  };
}

auto is_left(uint32_t who) {
  return [who](const json& line) {
    return line["kind"] == "left" && line["worker"] == who;
  };
}

uint64_t count_of(const std::vector<json>& lines, const std::string& kind) {
  uint64_t result = 0;
  for (const auto& line : lines)
    result += line["kind"] == kind;
  return result;
}

/// The parts that `data split` makes of 250 samples.
struct divided {
  divided() {
    write_mnist(on.home() / "all", 250, 0);
    auto split = on.start("split", {"data", "split", "all", "--parts", "3"});
    check_end(split, 0);
  }

  flags part(int number) const {
    return {
      "--data-dir",
      (on.home() / ("all-in-3-parts/part-" + std::to_string(number))).string()};
  }

  process_fixture on;
};

} // namespace

TEST_CASE("a worker that comes back finds its rank by its files") {
  divided all;
  auto& on = all.on;
  auto server = on.listening_server(of_the_run + flags{"--epochs", "100000"});
  std::vector<child> workers;
  for (int i = 0; i < 3; ++i) {
    workers.push_back(on.worker(all.part(i)));
    on.await(server, "a worker", is_joined(static_cast<uint32_t>(i), 1));
  }
  auto begun = on.await(server, "an epoch", is_kind("epoch"));
  workers[0].kill();
  workers[1].kill();
  on.await(server, "that they left", is_left(0), begun);
  auto left = on.await(server, "that they left", is_left(1), begun);
  on.await(server, "the other going on", is_kind("epoch"), left);

  write_mnist(on.home() / "others", 60, 4);
  auto stranger = on.worker({"--data-dir", (on.home() / "others").string()});
  CHECK(stranger.wait() == 2);
  INFO(stranger.err());
  CHECK(stranger.err().find(
          "refuses this node: rank 0 trains on 84 samples of its own, and this "
          "worker has 60 samples: give it the --data-dir of that rank\n") !=
        std::string::npos);

  workers[1] = on.worker(all.part(1));
  auto back = on.await(server, "that it is back", is_joined(1, 2), left);
  on.await(server, "its gradients", is_gradient_of(1), back);
  server.signal(SIGTERM);
  check_end(server, 75);
  check_end(workers[1], 0);
  check_end(workers[2], 0);

  event_log_account kept;
  kept.add(on.run() / "tape-1.pb");
  CHECK(kept.repeats() == 0);
  CHECK(kept.strays() == 0);
  uint64_t missing = 0;
  auto epochs = count_of(on.metrics(), "epoch");
  for (uint64_t epoch = 0; epoch < epochs; ++epoch)
    missing += 250 - kept.samples_of(epoch);
  CHECK(missing > 0);
  CHECK(on.summary()["samples_left_out"] == missing);
}

TEST_CASE("a run on files of their own is resumed and replayed") {
  divided all;
  auto& on = all.on;
  std::vector<std::string> sums;
  for (const auto& more :
       {flags{"--max-steps", "20"}, flags{"--epochs", "2", "--resume"}}) {
    auto server = on.listening_server(of_the_run + more);
    auto evaluator = on.evaluator(all.part(0));
    std::vector<child> workers;
    for (int i = 0; i < 3; ++i)
      workers.push_back(on.worker(
        all.part(i) + flags{"--threads", "1", "--rank", std::to_string(i)}));
    check_end(server, 0);
    for (auto& one : workers)
      check_end(one, 0);
    check_end(evaluator, 0);
    sums.push_back(on.summary()["state_sha256"]);
  }
  event_log_account kept;
  kept.add(on.run() / "tape-1.pb", 20);
  kept.add(on.run() / "tape-2.pb");
  CHECK(kept.repeats() == 0);
  CHECK(kept.samples_of(0) == 250);
  CHECK(kept.samples_of(1) == 250);
  CHECK(on.summary()["samples_left_out"] == 0);

  auto replay = [&](const std::string& data) {
    return on.start("replay", {"--replay", (on.run() / "tape-1.pb").string(),
                               "--data-dir", data, "--train-dir", "again",
                               "--overwrite"});
  };
  auto again = replay("all-in-3-parts");
  check_end(again, 0);
  CHECK(read_summary(on.home() / "again")["state_sha256"] == sums[0]);
  auto wrong = replay("all");
  CHECK(wrong.wait() == 1);
  CHECK(wrong.err().find("all/part-0: no such folder") != std::string::npos);
}

TEST_CASE("a server without files must know what they look like") {
  process_fixture on;
  auto server = on.server({"--dataset", "folder", "--sharding", "local"});
  CHECK(server.wait() == 2);
  CHECK(server.err() == "trainer_node: the data set folder needs --data-dir, "
                        "the folder of its files\n");
}
