#include "config/report/report.hpp"
#include "config/runs/replay_settings.hpp"
#include "config/runs/shared_settings.hpp"
#include "tests/config/support.hpp"

#include <catch2/catch_test_macros.hpp>

using namespace troupe::config;
using namespace troupe::config::test;

namespace {

/// The settings of a run as its event log has them, and a replay of it.
replay_settings replay_of(const std::string& run, const std::string& more) {
  auto ini = to_ini(parse(split(run)).config.values);
  auto call = parse(split("--replay x.pb " + more));
  return resolve_replay(ini, "x.pb (settings)", call.given_for_replay);
}

std::string complaint_about(const std::string& run, const std::string& more) {
  return complaint([&] { replay_of(run, more); });
}

} // namespace

TEST_CASE("a replay has the settings of its run", "[replay]") {
  const std::string line =
    "--role ps --policy async --workers 3 --lr 0.07 --seed 9 --threads 1 "
    "--train-dir runs/one --tape --checkpoint-freq 7 --max-steps 90";
  auto run = parse(split(line)).config.values;
  auto found = replay_of(line, "");
  const auto& all = found.all.values;
  CHECK(all.what == role::simulate);
  CHECK(all.simulation.clock == clock_kind::virtual_time);
  CHECK(all.training.lr == 0.07);
  CHECK(all.training.momentum == run.training.momentum);
  CHECK(all.checkpoint.checkpoint_freq == 7);
  CHECK(all.training.max_steps == 90);
  CHECK(digest(all) == digest(run));
  // It is not the run: it has a folder of its own.
  CHECK(all.training.train_dir.empty());
  CHECK_FALSE(all.training.tape);
  CHECK_FALSE(found.resume);
  CHECK_FALSE(found.may_stop_early);
}

TEST_CASE("a replay may have other folders, checkpoints, and an earlier end",
          "[replay]") {
  auto found = replay_of("--simulate --epochs 3",
                         "--train-dir a --overwrite --data-dir d --max-steps 4 "
                         "--checkpoint-freq 2 --keep 9 --tape --resume r");
  const auto& all = found.all.values;
  CHECK(all.training.train_dir == "a");
  CHECK(all.training.overwrite);
  CHECK(all.data.data_dir == "d");
  CHECK(all.training.max_steps == 4);
  CHECK(all.training.epochs == 3);
  CHECK(all.checkpoint.checkpoint_freq == 2);
  CHECK(all.checkpoint.keep == 9);
  CHECK(all.training.tape);
  CHECK(found.resume == "r");
  CHECK_FALSE(all.training.resume);
  CHECK(found.may_stop_early);
}

TEST_CASE("settings that make it another run are refused", "[replay]") {
  const std::string run = "--simulate --workers 3 --max-steps 9";
  CHECK(
    complaint_about(run, "--workers 4") ==
    "--workers 4: the run in the event log had 3, and a replay is that run: "
    "leave it out");
  CHECK(
    complaint_about(run, "--target-accuracy 0.9") ==
    "--target-accuracy 0.9: the run in the event log had none, and a replay is "
    "that run: leave it out");
  CHECK(
    complaint_about(run, "--max-steps 10") ==
    "--max-steps 10: the run in the event log ends at 9; a replay may only end "
    "earlier");
  CHECK_NOTHROW(replay_of(run, "--workers 3 --max-steps 9 --lr 0.03"));
  for (const std::string flag :
       {"--simulate", "--role ps", "--check", "--print-config"})
    CHECK(
      complaint([&] { parse(split("--replay x.pb " + flag)); }) ==
      "--replay takes all settings from the event log and runs at once: leave "
      "out --simulate, --role, --check, --evaluate and --print-config");
  CHECK(complaint([&] { parse(split("--replay x --replay y")); }) ==
        "--replay is given twice");
  CHECK(complaint([&] { parse(split("--replay")); }) ==
        "--replay needs a value");
}
