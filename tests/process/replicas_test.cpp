// Workers that compute each batch with several replicas (--replicas), as users
// start them.

#include "tests/process/process_fixture.hpp"

#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>

using namespace troupe::testing;

namespace {

const flags two_replicas{"--replicas", "2"};

/// A network with dropout.
const flags short_run{"--network",    "mnist_net", "--workers",   "2",
                      "--batch-size", "16",        "--max-steps", "10",
                      "--threads",    "1",         "--policy",    "sync"};

/// A network with batch normalisation.
const flags resnet{
  "--network",    "resnet20",
  "--dataset",    "synthetic(shape=3x16x16,classes=4,samples=200)",
  "--workers",    "2",
  "--batch-size", "8",
  "--max-steps",  "5",
  "--threads",    "1",
  "--policy",     "sync"};

json summary_of(const flags& options) {
  process_fixture on;
  auto all = on.simulate(options);
  check_end(all, 0);
  return on.summary();
}

} // namespace

TEST_CASE("replicas of a worker train as one, to rounding") {
  // Micro-batches of this size have the same dropout masks as the replicas.
  auto whole = summary_of(short_run + flags{"--micro-batch-size", "8"});
  auto found = summary_of(short_run + two_replicas);
  CHECK(found["samples_applied"] == whole["samples_applied"]);
  CHECK(found["final_loss"].get<double>() ==
        Catch::Approx(whole["final_loss"].get<double>()).epsilon(1e-4));
  CHECK(found["final_accuracy"].get<double>() ==
        Catch::Approx(whole["final_accuracy"].get<double>()).margin(0.005));
}

TEST_CASE("replicas make the same weights with threads, in virtual time, in "
          "processes and in a replay") {
  for (const auto& what : {short_run, resnet}) {
    INFO(what[1]);
    process_fixture on;
    auto all = on.simulate(what + two_replicas + flags{"--tape"});
    check_end(all, 0);
    auto found = on.summary();
    check_same_result(
      summary_of(what + two_replicas + flags{"--clock", "virtual"}), found);

    auto again =
      on.start("replay", {"--replay", (on.run() / "tape-1.pb").string(),
                          "--train-dir", (on.home() / "again").string()});
    check_end(again, 0);
    check_same_result(read_summary(on.home() / "again"), found);

    process_fixture cluster;
    auto server = cluster.listening_server(what + two_replicas);
    auto one = cluster.worker({"--threads", "1"});
    auto other = cluster.worker({"--threads", "1"});
    check_end(one, 0);
    check_end(other, 0);
    check_end(server, 0);
    for (auto key : {"weights_sha256", "state_sha256"})
      CHECK(cluster.summary()[key] == found[key]);
  }
}

TEST_CASE("each policy trains with replicas, and applies each sample once") {
  for (std::string policy : {"backup", "ssp", "async"}) {
    INFO(policy);
    process_fixture on;
    auto all =
      on.simulate({"--workers", "3", "--policy", policy, "--replicas", "2",
                   "--batch-size", "16", "--epochs", "2", "--threads", "1"});
    check_end(all, 0);
    check_completed(on, 2);
  }
}

TEST_CASE("the example of PyTorch's DataParallel runs") {
  auto found = summary_of({"--config", TROUPE_EXAMPLES "/data-parallel.ini"});
  CHECK(found["steps"] == 20);
  CHECK(found["workers"] == 1);
}
