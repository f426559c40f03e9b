// Event logs of virtual runs of every kind, re-enacted: the same notes in the
// same order, the same weights.

#include "actors/log_files/event_log_file.hpp"
#include "apps/lab/replay_plan.hpp"
#include "config/text/failure.hpp"
#include "tests/simulation/virtual_test.hpp"
#include "tests/support/error_line.hpp"
#include "tests/support/wished.hpp"

#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <span>
#include <sstream>

using namespace troupe;
using namespace troupe::test;
using proto::LogEvent;
using testing::temporary_folder;
using testing::wished;

namespace {

namespace fs = std::filesystem;

struct replay_outcome {
  run_end end;
  json summary;
  std::string metrics;
};

replay_outcome replay_in(const fs::path& folder, const fs::path& event_log,
                         std::vector<std::string> more = {}) {
  std::vector<std::string> all{"--replay", event_log.string(), "--train-dir",
                               folder.string()};
  all.insert(all.end(), more.begin(), more.end());
  auto call = config::parse_command_line(all, config::environment{});
  app::virtual_run_options options;
  options.silent = true;
  options.replay = app::plan_replay(call, [](const std::string&) {});
  replay_outcome out;
  out.end = app::run_in_virtual_time(options.replay->config, options);
  out.summary = json::parse(text_of_file(folder / "summary.json"));
  out.metrics = text_of_file(folder / "metrics.jsonl");
  return out;
}

/// All but the wall clock's figures.
json without_wall_clock(json summary) {
  summary.erase("wall_seconds");
  return summary;
}

void check_same(const std::vector<std::string>& arguments) {
  temporary_folder folder;
  auto all = arguments;
  all.emplace_back("--tape");
  auto first = run_in(folder / "run", all);
  auto again = replay_in(folder / "again", folder / "run" / "tape-1.pb");
  REQUIRE(again.end.line.empty());
  REQUIRE(again.end.status == 0);
  REQUIRE(again.metrics == first.metrics);
  REQUIRE(again.summary["state_sha256"] == first.summary["state_sha256"]);
}

std::vector<LogEvent> read_event_log(const fs::path& path) {
  recording::event_log_reader event_log{path};
  std::vector<LogEvent> out(1);
  *out[0].mutable_begin() = event_log.begin();
  for (LogEvent event; event_log.next(event);)
    out.push_back(event);
  return out;
}

/// An event log that ends with a gradient in the middle of the run, which is
/// refused.
fs::path refuse_one(const temporary_folder& folder, const std::string& why) {
  std::vector<std::string> how{"--workers",    "2",           "--policy",
                               "async",        "--max-steps", "8",
                               "--batch-size", "8",           "--tape"};
  if (why == "outlier")
    how.insert(how.end(), {"--workers", "3", "--outliers", "refuse"});
  run_in(folder / "run", how);
  recording::event_log_file out{folder / "refused.pb"};
  int arrived = 0;
  for (auto event : read_event_log(folder / "run" / "tape-1.pb")) {
    auto last = event.has_arrived() && ++arrived == 6;
    if (last) {
      auto& what = *event.mutable_arrived();
      what.set_refused(why);
      if (why == "outlier")
        what.set_norm(10.01 * what.median());
      event.clear_decision();
      if (why == "protocol_violation") { // Its lease is another worker's.
        auto samples = what.lease().count();
        what.mutable_lease()->Clear();
        what.mutable_lease()->set_id(999);
        what.mutable_lease()->set_count(samples);
      }
    }
    out.write(event);
    if (last)
      break;
  }
  return folder / "refused.pb";
}

/// The event log of a run whose losses and weights were rounded otherwise.
/// @param device Of its first worker.
fs::path round_otherwise(const temporary_folder& folder,
                         const std::string& device) {
  auto path = folder / ("on-" + device + ".pb");
  recording::event_log_file out{path};
  for (auto event : read_event_log(folder / "run" / "tape-1.pb")) {
    if (event.has_begin())
      event.mutable_begin()->set_alone(false);
    else if (event.has_enlisted() && event.enlisted().worker() == 0)
      event.mutable_enlisted()->set_device(device);
    else if (event.has_arrived())
      event.mutable_arrived()->set_loss(event.arrived().loss() * (1 + 1e-7));
    else if (event.has_ended())
      event.mutable_ended()->set_weights_sha256(std::string(64, '0'));
    out.write(event);
  }
  return path;
}

} // namespace

TEST_CASE("many seeds: a replay makes the same notes and the same weights") {
  const auto seeds = wished("TROUPE_SEEDS", 24);
  for (uint64_t seed = 1; seed <= seeds; ++seed) {
    INFO("seed " << seed);
    check_same(various(seed, 6, 2));
  }
}

TEST_CASE("a run whose number of workers varies is the same again") {
  for (std::string policy : {"sync", "backup", "ssp", "async"}) {
    INFO(policy);
    temporary_folder folder;
    testing::spill(folder / "faults.txt", "3 crash(worker=1,restart=6)\n"
                                          "4 crash(worker=2,restart=2)\n");
    std::vector<std::string> all{"--workers",
                                 "3:4",
                                 "--policy",
                                 policy,
                                 "--global-batch-size",
                                 "30",
                                 "--max-steps",
                                 "120",
                                 "--compute-time",
                                 "gamma(mean=0.5,cv=0.3)",
                                 "--liveness-timeout",
                                 "0.5",
                                 "--join-timeout",
                                 "5",
                                 "--tape",
                                 "--faults",
                                 (folder / "faults.txt").string()};
    auto first = run_in(folder / "run", all);
    auto second = run_in(folder / "second", all);
    auto again = replay_in(folder / "again", folder / "run" / "tape-1.pb");
    REQUIRE(again.end.line.empty());
    CHECK(second.metrics == first.metrics);
    CHECK(again.metrics == first.metrics);
    CHECK(again.summary["state_sha256"] == first.summary["state_sha256"]);
    auto momentum = policy == "ssp" || policy == "async";
    std::vector<int> members;
    auto paused = false;
    std::istringstream in{first.metrics};
    for (std::string text; std::getline(in, text);) {
      auto line = json::parse(text);
      if (line["kind"] == "update")
        CHECK(!paused);
      if (line["kind"] != "members")
        continue;
      members.push_back(line["members"]);
      paused = line["paused"];
      CHECK(paused == (members.back() < 3));
      CHECK(line.contains("momentum") == (momentum && !paused));
      if (momentum && !paused)
        CHECK(line["momentum"] ==
              config::asynchronous_momentum(members.back()));
    }
    CHECK(members == std::vector{4, 3, 2, 3, 4});
  }
}

TEST_CASE("a whole run with epochs, scores and checkpoints is the same again") {
  temporary_folder folder;
  auto first =
    run_in(folder / "run",
           {"--policy", "backup", "--workers", "5", "--epochs", "3",
            "--eval-freq", "7", "--checkpoint-freq", "10", "--compute-time",
            "gamma(mean=1,cv=0.5)", "--tape", "--target-accuracy", "0.9"});
  auto again = replay_in(folder / "again", folder / "run" / "tape-1.pb");
  CHECK(again.metrics == first.metrics);
  CHECK(without_wall_clock(again.summary) == without_wall_clock(first.summary));
}

TEST_CASE("an event log without gradients is the same again") {
  temporary_folder folder;
  auto first =
    run_in(folder / "run", {"--gradients", "none", "--workers", "50",
                            "--policy", "ssp", "--max-steps", "2000", "--tape",
                            "--compute-time", "exp(offset=0.5,mean=0.5)"});
  auto again = replay_in(folder / "again", folder / "run" / "tape-1.pb");
  CHECK(again.end.line.empty());
  CHECK(again.metrics == first.metrics);
  CHECK(without_wall_clock(again.summary) == without_wall_clock(first.summary));
}

TEST_CASE("a run whose last worker was expelled fails again") {
  temporary_folder folder;
  auto line = error_line<std::runtime_error>([&] {
    run_in(folder / "run",
           {"--workers", "1", "--lr", "1e8", "--max-steps", "50", "--tape"});
  });
  auto again = replay_in(folder / "again", folder / "run" / "tape-1.pb");
  CHECK("the run failed: " + again.end.line == line);
  CHECK(again.end.status == 1);
  CHECK(again.summary["status"] == "failed");
  CHECK(again.summary["gradients_refused"] == 20);
  CHECK(again.metrics == text_of_file(folder / "run" / "metrics.jsonl"));
}

TEST_CASE("where others made a run fail, its replay saves the state") {
  temporary_folder folder;
  auto line = error_line<std::runtime_error>([&] {
    run_in(folder / "run",
           {"--workers", "2", "--lr", "1e8", "--max-steps", "50", "--tape"});
  });
  CHECK(line.find("worker 0 expelled") != std::string::npos);
  CHECK_FALSE(fs::exists(folder / "run" / "checkpoints"));
  auto again = replay_in(folder / "again", folder / "run" / "tape-1.pb");
  CHECK(again.end.line.empty());
  CHECK(again.summary["status"] == "stopped");
  auto steps = again.summary["steps"].get<int>();
  CHECK(fs::exists(folder / "again" / "checkpoints" /
                   ("step-0000000" + std::to_string(steps))));
}

TEST_CASE("refusals of every kind are re-enacted") {
  for (std::string why :
       {"wrong_size", "not_finite", "outlier", "protocol_violation"}) {
    INFO(why);
    temporary_folder folder;
    auto event_log = refuse_one(folder, why);
    auto again = replay_in(folder / "again", event_log);
    CHECK(again.end.line.empty());
    CHECK(again.summary["gradients_refused"] == 1);
    CHECK(again.summary["steps"] == 5);
  }
}

TEST_CASE("weights are compared unless a worker computed on a device") {
  temporary_folder folder;
  run_in(folder / "run", {"--workers", "2", "--max-steps", "4", "--tape"});
  auto on_gpu = replay_in(folder / "gpu", round_otherwise(folder, "cuda:0"));
  CHECK(on_gpu.end.line.empty());
  CHECK(on_gpu.summary["steps"] == 4);
  auto on_cpu = replay_in(folder / "cpu", round_otherwise(folder, ""));
  CHECK(on_cpu.end.line.find("ended.weights_sha256") != std::string::npos);
}

TEST_CASE("a resumed run's event log begins where its checkpoint is") {
  temporary_folder folder;
  auto run = folder / "run";
  run_in(run, {"--max-steps", "10", "--workers", "2", "--tape"});
  auto second = run_in(
    run, {"--max-steps", "20", "--workers", "2", "--resume", "auto", "--tape"});
  CHECK(fs::exists(run / "tape-1.pb"));
  auto again = replay_in(folder / "again", run / "tape-2.pb");
  CHECK(again.end.line.empty());
  CHECK(without_wall_clock(again.summary) ==
        without_wall_clock(second.summary));

  // The checkpoint of another run at that step is not taken for it.
  run_in(folder / "other",
         {"--max-steps", "10", "--workers", "2", "--seed", "2"});
  auto line = error_line<run_error>([&] {
    replay_in(folder / "third", run / "tape-2.pb",
              {"--resume", (folder / "other").string()});
  });
  CHECK(line.find("is not the checkpoint that") != std::string::npos);
}

TEST_CASE("a life that left no checkpoint keeps its event log") {
  temporary_folder folder;
  auto run = folder / "run";
  std::vector<std::string> half{"--max-steps", "10", "--workers", "2",
                                "--tape"};
  run_in(run, half);
  auto event_log = text_of_file(run / "tape-1.pb");
  fs::remove_all(run / "checkpoints");
  half.insert(half.end(), {"--resume", "auto"});
  run_in(run, half);
  CHECK(text_of_file(run / "tape-1.pb") == event_log);
  for (const auto* name : {"tape-1.pb", "tape-2.pb"}) {
    auto again = replay_in(folder / name, run / name);
    CHECK(again.end.line.empty());
  }
}

TEST_CASE("the event log of a server that was killed at once is replayed") {
  for (std::string shards : {"1", "3"}) {
    INFO(shards);
    temporary_folder folder;
    run_in(folder / "run", {"--workers", "2", "--max-steps", "4", "--shards",
                            shards, "--tape"});
    auto whole = read_event_log(folder / "run" / "tape-1.pb");
    for (size_t events : {1, 2, 3}) {
      auto name = "first-" + std::to_string(events);
      {
        recording::event_log_file out{folder / (name + ".pb")};
        for (auto event : std::span{whole}.first(events))
          out.write(event);
      }
      auto again = replay_in(folder / name, folder / (name + ".pb"));
      CHECK(again.end.line.empty());
      CHECK(again.end.status == 0);
      CHECK(again.summary["steps"] == 0);
    }
  }
}

TEST_CASE("a replay that fails before its server has begun ends with a line") {
  temporary_folder folder;
  run_in(folder / "run", {"--workers", "2", "--max-steps", "4", "--tape"});
  auto events = read_event_log(folder / "run" / "tape-1.pb");
  auto arrived = std::ranges::find_if(
    events, [](const LogEvent& one) { return one.has_arrived(); });
  REQUIRE(arrived != events.end());
  {
    recording::event_log_file out{folder / "other.pb"};
    for (auto event : {events.front(), *arrived})
      out.write(event);
  }
  auto again = replay_in(folder / "again", folder / "other.pb");
  CHECK(again.end.status == 1);
  CHECK(again.end.line.find("other.pb: event ") != std::string::npos);
}

TEST_CASE("a replay stops at any step and leaves the state of that step") {
  temporary_folder folder;
  run_in(folder / "run", {"--policy", "ssp", "--staleness", "0", "--workers",
                          "3", "--max-steps", "12", "--checkpoint-freq", "1",
                          "--keep", "99", "--batch-size", "8", "--tape",
                          "--compute-time", "gamma(mean=1,cv=0.5)"});
  for (int step = 1; step < 12; ++step) {
    auto name = "stop-" + std::to_string(step);
    auto again = replay_in(folder / name, folder / "run" / "tape-1.pb",
                           {"--max-steps", std::to_string(step)});
    INFO(step);
    REQUIRE(again.end.line.empty());
    char checkpoint[32];
    std::snprintf(checkpoint, sizeof checkpoint, "step-%08d", step);
    for (auto file : {"model.safetensors", "optimizer.safetensors"}) {
      auto wanted =
        text_of_file(folder / "run" / "checkpoints" / checkpoint / file);
      auto found =
        text_of_file(folder / name / "checkpoints" / checkpoint / file);
      REQUIRE_FALSE(wanted.empty());
      auto same = found == wanted; // Else the log would hold both.
      REQUIRE(same);
    }
  }
}
