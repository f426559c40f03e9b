// Runs are resumed with the same settings, or refused.

#include "tests/data/idx_files.hpp"
#include "tests/process/process_fixture.hpp"
#include "tests/support/event_log_account.hpp"

#include <catch2/catch_test_macros.hpp>

#include <csignal>
#include <set>

using namespace troupe;
using namespace troupe::testing;

namespace fs = std::filesystem;

namespace {

/// A run that is stopped in the middle of an epoch, with a checkpoint.
void run_and_stop(process_fixture& on, const flags& options, uint64_t step) {
  auto all = on.simulate(options);
  on.await(all, "training", is_step(step));
  all.signal(SIGINT);
  check_end(all, 75);
}

proto::LogBegin begin_of(const fs::path& event_log) {
  return recording::event_log_reader{event_log}.begin();
}

std::string setting(const proto::LogBegin& of, const std::string& key) {
  for (const auto& one : of.description().settings())
    if (one.key() == key)
      return one.value();
  return "(none)";
}

/// What is refused leaves the run as it is.
void check_refused(process_fixture& on, const flags& more, int status,
                   const std::string& line) {
  auto before = files_below(on.run());
  auto config = slurp(on.run() / "config.ini");
  auto metrics = slurp(on.run() / "metrics.jsonl");
  auto summary = slurp(on.run() / "summary.json");
  auto who = on.simulate(flags{"--resume", "auto"} + more);
  check_end(who, status);
  INFO(who.report());
  CHECK(who.err().starts_with("trainer_node: "));
  CHECK(who.err().find(line) != std::string::npos);
  CHECK(files_below(on.run()) == before);
  CHECK(slurp(on.run() / "config.ini") == config);
  CHECK(slurp(on.run() / "metrics.jsonl") == metrics);
  CHECK(slurp(on.run() / "summary.json") == summary);
}

} // namespace

TEST_CASE("a run resumed without its flags goes on as it was") {
  process_fixture on;
  run_and_stop(on,
               {"--seed", "3", "--policy", "ssp", "--staleness", "1",
                "--workers", "2", "--epochs", "12", "--tape"},
               30);
  auto all = on.simulate({"--resume", "auto"});
  check_end(all, 0);
  auto summary = on.summary();
  CHECK(summary["status"] == "completed");
  CHECK(summary["seed"] == 3);
  auto first = begin_of(on.run() / "tape-1.pb");
  auto second = begin_of(on.run() / "tape-2.pb");
  CHECK(setting(second, "training.seed") == "3");
  CHECK(setting(second, "policy.name") == "ssp");
  CHECK(first.description().data().SerializeAsString() ==
        second.description().data().SerializeAsString());
  // Each position of each epoch's order once, by the events of both lives.
  test::event_log_account account;
  account.add(on.run() / "tape-1.pb", second.start_version());
  account.add(on.run() / "tape-2.pb");
  for (uint64_t epoch = 0; epoch < 12; ++epoch)
    CHECK(account.samples_of(epoch) == digits);
  CHECK(account.repeats() == 0);
  CHECK(account.samples_of(12) == 0);
  CHECK(summary["samples_applied"] == 12 * digits);
}

TEST_CASE("what a resumed run may not have otherwise is refused") {
  process_fixture on;
  run_and_stop(on, {"--seed", "3", "--workers", "2", "--epochs", "50"}, 5);
  check_refused(on, {"--seed", "4"}, 2, "--seed 4: the run at ");
  check_refused(on, {"--dataset", "synthetic(samples=1437)"}, 2,
                "has digits; leave it out to go on as it was, or begin another "
                "run");
  check_refused(on, {"--policy", "async"}, 2,
                "or change it with --change policy.name=async");
  check_refused(on, {"--change", "training.seed=4"}, 2,
                "cannot go on with another");
  auto all = on.simulate({"--resume", "--workers", "3", "--shards", "2",
                          "--checkpoint-freq", "7", "--eval-freq", "9",
                          "--threads", "1", "--max-steps", "200"});
  check_end(all, 0);
  CHECK(on.summary()["steps"] == 200);
}

TEST_CASE("a run is not resumed with other data of the same name") {
  process_fixture on;
  test::write_mnist(on.home() / "one", 100, 1);
  test::write_mnist(on.home() / "other", 100, 2);
  test::write_mnist(on.home() / "more", 110, 1);
  auto data = [&](const std::string& name) {
    return flags{"--data-dir", (on.home() / name).string()};
  };
  run_and_stop(on,
               data("one") + flags{"--dataset", "mnist", "--workers", "1",
                                   "--batch-size", "10", "--max-steps",
                                   "100000"},
               5);
  check_refused(on, data("other"), 1, "digest of the labels of the training");
  check_refused(on, data("more"), 1, "training samples: 100 there, 110 here");
  auto same = on.simulate(flags{"--resume", "--max-steps", "10"} + data("one"));
  check_end(same, 0);
}

TEST_CASE("a deliberate change is taken, and kept in the run's records") {
  process_fixture on;
  const flags all{"--workers", "1", "--epochs", "50", "--tape", "--keep", "9"};
  run_and_stop(on, all, 5);
  auto who =
    on.simulate({"--resume", "--change", "training.lr=0.001,policy.name=async",
                 "--max-steps", "200"});
  check_end(who, 0);
  CHECK(who.said("changed +training.lr: 0.03 before, 0.001 from step"));
  auto changes = on.summary()["changes"];
  REQUIRE(changes.size() == 2);
  CHECK(changes[0]["key"] == "training.lr");
  CHECK(changes[0]["before"] == "0.03");
  CHECK(changes[0]["after"] == "0.001");
  CHECK(on.summary()["policy"].get<std::string>().starts_with("async"));
  auto lines = on.metrics();
  auto resumed = std::ranges::find_if(lines, is_kind("resumed"));
  REQUIRE(resumed != lines.end());
  CHECK((*resumed)["changes"]["training.lr"]["after"] == "0.001");
  auto later = std::find_if(resumed, lines.end(), is_kind("update"));
  CHECK((*later)["lr"] == 0.001);
  auto config = slurp(on.run() / "config.ini");
  CHECK(config.find("lr = 0.001\n") != config.npos);
  CHECK(config.find("training.lr was 0.03, is 0.001.\n") != config.npos);
  auto begin = begin_of(on.run() / "tape-2.pb");
  REQUIRE(begin.description().changes_size() == 2);
  CHECK(begin.description().changes(0).life() == 2);
  // From now on the run has this learning rate.
  check_refused(on, {"--lr", "0.03"}, 2, "has 0.001");
  auto again = on.simulate({"--resume", "--max-steps", "210"});
  check_end(again, 0);
  CHECK(on.summary()["changes"].size() == 2);
  // A replay of the life that changed it makes it again.
  auto replay =
    on.start("replay", {"--replay", (on.run() / "tape-2.pb").string(),
                        "--train-dir", (on.home() / "again").string()});
  check_end(replay, 0);
}

TEST_CASE(
  "a deliberate change outlives a server that is killed before its next "
  "checkpoint") {
  process_fixture on;
  const flags all{"--workers", "1", "--epochs", "5000"};
  run_and_stop(on, all, 5);
  auto steps = on.summary()["steps"].get<uint64_t>();
  auto who = on.simulate({"--resume", "--change", "training.lr=0.001",
                          "--checkpoint-freq", "1000000"});
  on.await(who, "more steps", is_step(steps + 2));
  who.kill();
  auto end = std::to_string(steps + 5);
  auto again = on.simulate({"--resume", "auto", "--max-steps", end});
  check_end(again, 0);
  CHECK_FALSE(again.said("changed "));
  auto summary = on.summary();
  REQUIRE(summary["changes"].size() == 1);
  CHECK(summary["changes"][0]["after"] == "0.001");
  CHECK(summary["changes"][0]["step"] == steps);
  auto lines = on.metrics();
  auto last = std::find_if(lines.rbegin(), lines.rend(), is_kind("update"));
  CHECK((*last)["lr"] == 0.001);
}

TEST_CASE("two processes do not share a run directory") {
  process_fixture on;
  const flags what{"--workers", "1", "--epochs", "1000"};
  auto first = on.simulate(what);
  on.await(first, "training", is_step(2));
  auto pid = std::to_string(first.pid());
  for (const auto& more : {flags{"--resume", "auto"}, flags{"--overwrite"}}) {
    auto second = on.simulate(what + more);
    check_end(second, 1);
    INFO(second.report());
    CHECK(second.err().find("a run is under way there, of process " + pid) !=
          std::string::npos);
  }
  first.signal(SIGINT);
  check_end(first, 75);
  CHECK(on.summary()["samples_applied"] == committed_of(on.metrics()).samples);
}

TEST_CASE("a killed process leaves no lock behind") {
  process_fixture on;
  const flags what{"--workers", "1", "--checkpoint-freq", "5"};
  auto first = on.simulate(what + flags{"--epochs", "1000"});
  on.await(first, "a checkpoint", is_kind("checkpoint"));
  first.kill();
  auto second = on.simulate({"--resume", "--max-steps", "20"});
  check_end(second, 0);
}

TEST_CASE("a resumed run that is killed does not look complete") {
  process_fixture on;
  auto first = on.simulate({"--workers", "1", "--max-steps", "5"});
  check_end(first, 0);
  REQUIRE(on.summary()["status"] == "completed");
  auto second =
    on.simulate({"--resume", "--epochs", "1000", "--checkpoint-freq", "1000"});
  on.await(second, "training", is_step(10));
  second.kill();
  CHECK_FALSE(fs::exists(on.run() / "summary.json"));
}

TEST_CASE("a follower goes on to the end of a resumed run") {
  process_fixture on;
  auto first = on.simulate({"--workers", "1", "--max-steps", "5"});
  check_end(first, 0);
  auto second = on.simulate({"--resume", "--max-steps", "300"});
  second.await("resumed ");
  auto follower = on.start(
    "follower", {"--role", "evaluator", "--follow", on.run().string()});
  check_end(second, 0);
  check_end(follower, 0);
  CHECK(follower.said("evaluation +step 300 "));
}

TEST_CASE("lives of a server never repeat, even without checkpoints") {
  process_fixture on;
  const flags what{"--workers", "1",        "--checkpoint-freq",
                   "5",         "--epochs", "1000"};
  auto first = on.simulate(what);
  on.await(first, "a checkpoint", is_kind("checkpoint"));
  first.kill();
  std::set<uint64_t> lives{1};
  for (int i = 0; i < 3; ++i) {
    auto from = on.metrics().size();
    auto next = on.simulate({"--resume", "auto", "--checkpoint-freq", "1000"});
    auto at = on.await(next, "that it goes on", is_kind("resumed"), from);
    next.kill();
    CHECK(lives.insert(on.metrics()[at]["incarnation"].get<uint64_t>()).second);
  }
  CHECK(lives == std::set<uint64_t>{1, 2, 3, 4});
}

TEST_CASE("overwrite keeps the old run when the new one cannot start") {
  process_fixture on;
  auto first = on.simulate({"--workers", "1", "--max-steps", "5"});
  check_end(first, 0);
  auto before = files_below(on.run());
  auto second = on.simulate({"--overwrite", "--dataset", "mnist", "--data-dir",
                             (on.home() / "nothing").string()});
  check_end(second, 1);
  auto third = on.simulate({"--overwrite", "--sharding", "static",
                            "--drop-last", "--workers", "2000"});
  check_end(third, 2);
  CHECK(files_below(on.run()) == before);
  auto fourth =
    on.simulate({"--overwrite", "--workers", "1", "--max-steps", "3"});
  check_end(fourth, 0);
  CHECK(on.summary()["steps"] == 3);
  CHECK(slurp(on.run() / "lives").starts_with("1 "));
}

TEST_CASE("the settings of a resumed run say where they come from") {
  process_fixture on;
  auto first =
    on.simulate({"--workers", "1", "--seed", "3", "--max-steps", "5"});
  check_end(first, 0);
  auto before = files_below(on.run());
  auto shown = on.simulate({"--resume", "--print-config"});
  check_end(shown, 0);
  CHECK(shown.said("seed = 3 +; run .*/run/checkpoints/step-00000005"));
  auto checked = on.simulate({"--resume", "--check"});
  check_end(checked, 0);
  CHECK(checked.said("seed 3"));
  CHECK(files_below(on.run()) == before);
}
