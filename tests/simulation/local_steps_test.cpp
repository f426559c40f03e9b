// Runs with local steps under the virtual clock: each sample once, the same
// bits again, also in a replay and after a resume.

#include "actors/log_files/event_log_file.hpp"
#include "apps/lab/replay_plan.hpp"
#include "tests/simulation/virtual_test.hpp"

#include <catch2/catch_test_macros.hpp>

#include <cmath>
#include <map>
#include <utility>

using namespace troupe;
using namespace troupe::test;
using testing::temporary_folder;

namespace {

namespace fs = std::filesystem;
using words = std::vector<std::string>;

words with(words all, const words& more) {
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

json replayed_summary(const fs::path& event_log, const fs::path& into) {
  words all{"--replay", event_log.string(), "--train-dir", into.string()};
  auto call = config::parse_command_line(all, config::environment{});
  app::virtual_run_options options;
  options.silent = true;
  options.replay = app::plan_replay(call, [](const std::string&) {});
  auto end = app::run_in_virtual_time(options.replay->config, options);
  CHECK(end.line == "");
  return json::parse(text_of_file(into / "summary.json"));
}

const words rounds{"--workers",      "3",
                   "--batch-size",   "16",
                   "--local-steps",  "4",
                   "--epochs",       "2",
                   "--lr",           "0.5",
                   "--momentum",     "0.3",
                   "--compute-time", "exp(offset=0.5,mean=0.5)"};

constexpr uint64_t digits = 1437;

} // namespace

TEST_CASE("local steps under each policy: each sample once, and the same bits "
          "in a replay") {
  const std::string sgd = "sgd";
  const std::string adamw = "adamw(lr=0.002)";
  const std::vector<std::pair<std::string, std::string>> runs{
    {"sync", sgd},
    {"backup(late=drop)", adamw},
    {"backup(late=cancel)", sgd},
    {"ssp(staleness=1)", adamw},
    {"async", sgd},
    {"buffered(size=2)", adamw},
    {"quorum(quorum=2,window=0.3)", adamw}};
  for (const auto& [policy, inner] : runs) {
    INFO(policy << ", " << inner);
    temporary_folder folder;
    auto first = run_in(folder / "run",
                        with(rounds, {"--policy", policy, "--inner-optimizer",
                                      inner, "--epochs", "1", "--tape"}));
    CHECK(first.summary["samples_applied"] == digits);
    CHECK(first.summary["local_steps"] == 4);
    auto again =
      replayed_summary(folder / "run" / "tape-1.pb", folder / "again");
    CHECK(again["state_sha256"] == first.summary["state_sha256"]);
  }
}

TEST_CASE("fragments under each policy: each sample once, and the same bits in "
          "a replay") {
  const std::vector<std::pair<std::string, std::string>> runs{
    {"sync", "8"},
    {"backup(late=drop)", "3"},
    {"backup(late=cancel)", "8"},
    {"ssp(staleness=1)", "2"},
    {"async", "8"},
    {"buffered(size=2)", "3"},
    {"quorum(quorum=2,window=0.3)", "2"}};
  for (const auto& [policy, count] : runs) {
    INFO(policy << ", " << count << " fragments");
    temporary_folder folder;
    auto first =
      run_in(folder / "run", with(rounds, {"--policy", policy, "--fragments",
                                           count, "--epochs", "1", "--tape"}));
    CHECK(first.summary["samples_applied"] == digits);
    CHECK(first.summary["samples_partly_applied"] > 0); // The last rounds'.
    CHECK(first.summary["final_accuracy"] > 0.3);
    auto again =
      replayed_summary(folder / "run" / "tape-1.pb", folder / "again");
    CHECK(again["state_sha256"] == first.summary["state_sha256"]);
    CHECK(again["samples_partly_applied"] ==
          first.summary["samples_partly_applied"]);
  }
}

TEST_CASE("rounds that begin before their weights come: each sample once, and "
          "the same bits in a replay") {
  const std::vector<std::pair<std::string, words>> runs{
    {"sync", {"--fragments", "2"}},
    {"sync", {"--shards", "3"}},
    {"backup(late=drop)", {}},
    {"backup(late=cancel)", {}},
    {"ssp(staleness=1)", {"--inner-optimizer", "sgd(lr=0.05)"}},
    {"async", {"--fragments", "3"}},
    {"buffered(size=2)", {"--inner-lr-schedule", "step(every=0.5,factor=0.5)"}},
    {"quorum(quorum=2,window=0.3)", {"--link-latency", "0.4"}}};
  for (const auto& [policy, more] : runs) {
    INFO(policy);
    temporary_folder folder;
    auto first =
      run_in(folder / "run",
             with(with(rounds, {"--policy", policy, "--tape", "--epochs", "1",
                                "--overlap-steps", "2"}),
                  more));
    CHECK(first.summary["samples_applied"] == digits);
    CHECK(first.summary["final_accuracy"] > 0.3);
    std::map<uint32_t, int> counted; // By the steps before the weights.
    auto tape = folder / "run" / "tape-1.pb";
    recording::event_log_reader events{tape};
    for (proto::LogEvent event; events.next(event);)
      if (event.has_arrived())
        ++counted[event.arrived().early_steps()];
    CHECK(counted[2] > 5);
    CHECK(counted.size() <= 3);
    auto again = replayed_summary(tape, folder / "again");
    CHECK(again["state_sha256"] == first.summary["state_sha256"]);
  }
}

TEST_CASE("a worker that is lost leaves samples in some fragments only") {
  auto all = with(
    rounds, {"--fragments", "3", "--compute-time", "constant(1)", "--tape"});
  temporary_folder folder;
  auto calm = run_in(folder / "calm", all);
  // The last two rounds of each worker.
  CHECK(calm.summary["samples_partly_applied"] <= 3 * 2 * 4 * 16);
  for (std::string fault :
       {"13.5 crash(worker=1,restart=4)", "13.5 crash(worker=1)"}) {
    INFO(fault);
    auto run = folder / std::to_string(fault.size());
    auto script = run.string() + ".faults";
    std::ofstream{script} << fault << '\n';
    auto found = run_in(run, with(all, {"--faults", script}));
    CHECK(found.summary["samples_applied"] == 2 * digits);
    CHECK(found.summary["samples_partly_applied"] >= 2 * 4 * 16);
    auto again = replayed_summary(run / "tape-1.pb", run / "again");
    CHECK(again["state_sha256"] == found.summary["state_sha256"]);
  }
}

TEST_CASE("a run with fragments goes on from a checkpoint") {
  auto all = with(rounds, {"--fragments", "3", "--overlap-steps", "1",
                           "--optimizer", "adam", "--lr", "0.01", "--tape",
                           "--checkpoint-freq", "4", "--keep", "99"});
  temporary_folder folder;
  auto before = run_in(folder / "run", with(all, {"--max-steps", "5"}));
  auto after = run_in(folder / "run",
                      with(all, {"--resume", "auto", "--max-steps", "1000"}));
  CHECK(after.summary["samples_applied"] == 2 * digits);
  CHECK(after.summary["samples_partly_applied"] >
        before.summary["samples_partly_applied"]);
  auto again = replayed_summary(folder / "run" / "tape-2.pb", folder / "again");
  CHECK(again["state_sha256"] == after.summary["state_sha256"]);
}

TEST_CASE("steps before the weights hide the time that they need") {
  for (std::string gradients : {"real", "none"}) {
    INFO(gradients);
    words all{"--workers",      "3",   "--batch-size",   "16",
              "--local-steps",  "6",   "--compute-time", "constant(1)",
              "--link-latency", "1.4", "--gradients",    gradients,
              "--max-steps",    "10"};
    auto waits = run(all);
    auto goes_on = run(with(all, {"--overlap-steps", "3"}));
    // A round takes 6 seconds, and the way there and back 2.8.
    CHECK(waits.seconds() > 8.5 * 10);
    CHECK(goes_on.seconds() < 6.5 * 10);
    CHECK(goes_on.summary["wait_share"] < 0.05);
  }
}

TEST_CASE("fragments take as much less time on a slow line") {
  for (std::string gradients : {"real", "none"}) {
    INFO(gradients);
    words all{"--workers",     "3",       "--batch-size", "16",
              "--local-steps", "4",       "--momentum",   "0",
              "--gradients",   gradients, "--link-rate",  "100000",
              "--max-steps",   "20"};
    auto whole = run(all);
    auto some = run(with(all, {"--fragments", "4"}));
    CHECK(some.seconds() <
          0.4 * whole.seconds()); // It is the line that counts.
  }
}

TEST_CASE("one local step of sgd is a plain step") {
  words plain{"--workers",   "3",  "--batch-size", "16",
              "--max-steps", "40", "--lr",         "0.05",
              "--momentum",  "0",  "--dtype",      "float64"};
  auto today = run(plain);
  auto one = run(with(plain, {"--local-steps", "1", "--lr", "1",
                              "--inner-optimizer", "sgd(momentum=0,lr=0.05)"}));
  double expected = today.summary["final_loss"];
  CHECK(std::abs(double{one.summary["final_loss"]} / expected - 1) < 1e-9);
  CHECK(one.summary["samples_applied"] == today.summary["samples_applied"]);
}

TEST_CASE("a run with local steps goes on from a checkpoint as if it had not "
          "been stopped") {
  // With shares of their own workers have the same samples, whenever they come.
  auto all =
    with(rounds,
         {"--sharding", "static", "--inner-optimizer", "adamw(lr=0.002)",
          "--inner-lr-schedule", "step(every=0.5,factor=0.5)", "--compute-time",
          "constant(1)", "--tape", "--checkpoint-freq", "4", "--keep", "99"});
  temporary_folder folder;
  auto whole = run_in(folder / "whole", all);
  run_in(folder / "parts", with(all, {"--max-steps", "4"}));
  for (auto rank : {"0", "1", "2"})
    CHECK(fs::exists(folder / "parts" / "inner-optimizer" / "step-00000004" /
                     (std::string{"worker-"} + rank + ".safetensors")));
  auto resumed = run_in(folder / "parts",
                        with(all, {"--resume", "auto", "--max-steps", "1000"}));
  CHECK(resumed.summary["state_sha256"] == whole.summary["state_sha256"]);
  auto again =
    replayed_summary(folder / "parts" / "tape-2.pb", folder / "again");
  CHECK(again["state_sha256"] == whole.summary["state_sha256"]);
  // Without their files workers begin with new optimisers.
  fs::remove_all(folder / "parts");
  run_in(folder / "parts", with(all, {"--max-steps", "4"}));
  fs::remove_all(folder / "parts" / "inner-optimizer");
  auto anew = run_in(folder / "parts",
                     with(all, {"--resume", "auto", "--max-steps", "1000"}));
  CHECK(anew.summary["state_sha256"] != whole.summary["state_sha256"]);
}

TEST_CASE("local steps with statistics, groups, frozen layers and compression "
          "of all kinds are the same again") {
  for (const auto& more :
       {words{"--network", "resnet20", "--dataset",
              "synthetic(shape=3x32x32,classes=10,samples=96)", "--buffers",
              "local"},
        words{"--param-groups", "fc*=lr=0.01 weight-decay=0.1", "--freeze",
              "conv1*"},
        words{"--compression", "int8"}, words{"--replicas", "2"},
        words{"--fragments", "3", "--ema-decay", "0.9", "--clip-norm", "1"},
        words{"--fragments", "2", "--network", "resnet20", "--dataset",
              "synthetic(shape=3x32x32,classes=10,samples=96)"},
        words{"--fragments", "3", "--optimizer", "lamb", "--lr", "0.01"},
        words{"--overlap-steps", "1", "--network", "resnet20", "--dataset",
              "synthetic(shape=3x32x32,classes=10,samples=96)", "--buffers",
              "local"},
        words{"--shards", "3"}, words{"--dtype", "float64"},
        words{"--sharding", "static", "--drop-last"}}) {
    INFO(more.front() << " " << more.at(1));
    temporary_folder folder;
    auto all = with({"--workers", "2", "--batch-size", "8", "--local-steps",
                     "3", "--max-steps", "4", "--policy", "async", "--tape"},
                    more);
    auto first = run_in(folder / "run", all);
    auto second = run_in(folder / "second", all);
    CHECK(second.summary["state_sha256"] == first.summary["state_sha256"]);
    if (more.front() == "--compression")
      continue; // A replay does not compress.
    auto again =
      replayed_summary(folder / "run" / "tape-1.pb", folder / "again");
    CHECK(again["state_sha256"] == first.summary["state_sha256"]);
  }
}

TEST_CASE("rounds by rates: the slow one's are shorter, and nobody waits") {
  auto all = with(rounds, {"--local-steps", "auto(max=8)", "--compute-time",
                           "slow(base=constant(0.5),worker=0,factor=4)",
                           "--epochs", "4", "--tape"});
  for (std::string policy : {"sync", "async", "buffered(size=2)"}) {
    INFO(policy);
    temporary_folder folder;
    auto first = run_in(folder / "run", with(all, {"--policy", policy}));
    CHECK(first.summary["samples_applied"] == 4 * digits);
    auto tape = folder / "run" / "tape-1.pb";
    auto again = replayed_summary(tape, folder / "again");
    CHECK(again["state_sha256"] == first.summary["state_sha256"]);
    std::map<uint32_t, std::map<int, int>> counted; // By worker and steps.
    recording::event_log_reader events{tape};
    for (proto::LogEvent event; events.next(event);)
      if (event.has_arrived())
        ++counted[event.arrived().worker()][1 + event.arrived().also_size()];
    CHECK(counted[0][8] == 2); // The first round tells nothing of it.
    CHECK(counted[0][2] > 3);
    CHECK(counted[1][8] > 3);
    CHECK(counted[2][8] > 3);
    CHECK(counted[1][2] + counted[2][2] <= 4); // At the ends of epochs.
  }
  auto even = run(with(all, {"--local-steps", "8"}));
  auto paced = run(all);
  CHECK(paced.seconds() < 0.5 * even.seconds());
  double waits = paced.summary["wait_share"];
  CHECK(waits < 0.5 * double{even.summary["wait_share"]});
}

TEST_CASE("rounds longer than an epoch are refused") {
  try {
    run({"--workers", "4", "--local-steps", "6", "--epochs", "2"});
    FAIL("accepted");
  } catch (const std::exception& why) {
    CHECK(std::string{why.what()} ==
          "--local-steps 6: is more than an epoch has batches for each of 4 "
          "workers: use at most 5, or a smaller --batch-size");
  }
}
