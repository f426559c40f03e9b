#pragma once
// Runs small clusters under random faults; each run is a function of its
// number.

#include "apps/lab/replay_plan.hpp"
#include "apps/lab/simulation/fault_draw.hpp"
#include "apps/lab/virtual_run.hpp"
#include "config/commands/command_line.hpp"
#include "config/text/failure.hpp"

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace troupe::test {

/// Those that do not crash for good: with fewer than its fewest workers a run
/// would wait for ever.
inline uint64_t workers_that_stay(uint64_t number, uint32_t workers) {
  auto all = cores::draw_faults(
    {number, static_cast<uint32_t>(7 + number % 8), 30}, workers);
  uint64_t gone = 0;
  for (const auto& one : all)
    gone += one.what == config::fault_kind::crash && !one.lasts;
  return workers - gone;
}

/// What the run may go on with after a while.
inline std::string later_policy(uint64_t number, bool also_ssp) {
  static const char* all[] = {"sync",  "backup",           "quorum(window=0.3)",
                              "async", "buffered(size=2)", "ssp(staleness=1)"};
  return all[number % (also_ssp ? std::size(all) : std::size(all) - 1)];
}

/// The arguments of a run by its number: over all policies, sizes and speeds.
inline std::vector<std::string> soak_arguments(uint64_t number) {
  struct choice {
    std::vector<std::string> policy;
    bool one_by_one; ///< Each gradient makes an update.
  };
  static const choice policies[] = {
    {{"--policy", "sync"}, false},
    {{"--policy", "backup", "--late", "drop"}, false},
    {{"--policy", "backup", "--late", "cancel"}, false},
    {{"--policy", "ssp", "--staleness", "0"}, true},
    {{"--policy", "ssp", "--staleness", "1"}, true},
    {{"--policy", "ssp", "--staleness", "3"}, true},
    {{"--policy", "async"}, true},
    {{"--policy", "buffered", "--size", "3"}, false},
    {{"--policy", "quorum", "--window", "0.3"}, false},
  };
  static const char* times[] = {"exp(offset=0.5,mean=0.5)",
                                "gamma(mean=1,cv=0.3)", "constant(1)",
                                "transient(base=constant(1),p=0.1,factor=5)"};
  static const char* delays[] = {"0", "0.05", "0.3"};
  const auto& policy = policies[number % std::size(policies)];
  auto workers = 2 + number / 7 % 5;
  auto steps = policy.one_by_one ? 70 * workers : 70;
  // In some runs samples are counted, and the last ones may be late. These runs
  // take longer. Not under ssp: the checker does not see which workers rest,
  // which changes their clocks.
  auto ends_with_epoch = number % 25 == 2 && policy.policy[1] != "ssp";
  // In some the number of workers varies. Ranks with samples of their own would
  // not allow that.
  auto is_static = number % 4 == 1;
  auto stay = workers_that_stay(number, static_cast<uint32_t>(workers));
  auto range = number % 3 == 2 && !is_static && stay > 1
                 ? std::to_string(2 + number / 11 % (stay - 1)) + ":"
                 : "";
  std::vector<std::string> result{
    "--simulate",
    "--clock",
    "virtual",
    "--workers",
    range + std::to_string(workers),
    "--seed",
    std::to_string(number),
    "--compute-time",
    times[number / 3 % std::size(times)],
    "--shards",
    std::to_string(number % 5 == 0 ? 3 : 1),
    "--link-latency",
    delays[number / 5 % std::size(delays)],
    "--checkpoint-freq",
    std::to_string(1 + number * 7 % 20),
    "--liveness-timeout",
    "2",
    "--join-timeout",
    "3",
    "--faults",
    "random(seed=" + std::to_string(number) +
      ",faults=" + std::to_string(7 + number % 8) + ",until=30)"};
  result.insert(result.end(), policy.policy.begin(), policy.policy.end());
  if (ends_with_epoch)
    result.insert(result.end(), {"--epochs", "1", "--batch-size", "64",
                                 "--outliers", "refuse(factor=4)"});
  else
    result.insert(result.end(),
                  {"--gradients", "none", "--max-steps", std::to_string(steps),
                   number % 9 == 2 ? "--global-batch-size" : "--batch-size",
                   number % 9 == 2 ? "60" : "8"});
  if (number % 3 == 1)
    result.insert(result.end(), {"--hang-timeout", "3"});
  if (is_static)
    result.insert(result.end(), {"--sharding", "static"});
  if (number % 8 == 1)
    result.emplace_back("--drop-last");
  if (number % 6 == 2)
    result.insert(result.end(), {"--policy-changes",
                                 std::to_string(2 + number % 5) + " " +
                                   later_policy(number, !ends_with_epoch) +
                                   "; " + std::to_string(9 + number % 7) + " " +
                                   later_policy(number / 6, !ends_with_epoch)});
  if (number % 13 == 4)
    result.insert(
      result.end(),
      {"--local-steps", number % 2 == 0 && !is_static ? "auto(max=3)" : "3"});
  if (number % 13 == 4 && number % 4 != 0)
    result.insert(result.end(),
                  {"--overlap-steps", number % 3 == 0 ? "2" : "1"});
  // There is one shard, and nothing compares norms.
  if (number % 13 == 4 && number % 5 != 0 && !ends_with_epoch)
    result.insert(result.end(), {"--fragments", number % 3 == 0 ? "2" : "4"});
  return result;
}

struct soak_outcome {
  run_end how;
  simulation::fault_counts counts;
};

/// Plays the event log of each life of the run in `folder` again, beside it.
/// Fails where a life decides otherwise.
inline run_end replay_lives(const std::filesystem::path& folder) {
  auto again = folder.string() + "-again";
  for (int life = 1;; ++life) {
    auto event_log = folder / ("tape-" + std::to_string(life) + ".pb");
    if (!std::filesystem::exists(event_log))
      return life > 1 ? run_end{} : run_end{1, "the run has no event log"};
    std::vector<std::string> words{"--replay", event_log.string(),
                                   "--train-dir", again};
    auto call = config::parse_command_line(words, config::environment{});
    app::virtual_run_options options;
    options.silent = true;
    run_end how;
    try {
      options.replay = app::plan_replay(call, [](const std::string&) {});
      how = app::run_in_virtual_time(options.replay->config, options);
    } catch (const failure& why) {
      how = {1, why.what()};
    }
    std::filesystem::remove_all(again);
    if (how.status != 0)
      return how;
  }
}

/// Whether the lives of the run of this number are replayed.
inline bool is_replayed(uint64_t number) {
  return number % 16 == 3;
}

/// Runs a command line in `folder`, which is created and then removed.
/// @param replays Whether its decisions are compared with those of a replay.
inline soak_outcome soak_once(std::vector<std::string> arguments,
                              const std::filesystem::path& folder,
                              bool replays = false) {
  arguments.insert(arguments.end(), {"--train-dir", folder.string()});
  if (replays) // Each life needs the checkpoint that it began from.
    arguments.insert(arguments.end(), {"--tape", "--keep", "100000"});
  auto call = config::parse_command_line(arguments, config::environment{});
  soak_outcome out;
  app::virtual_run_options options;
  options.silent = true;
  options.counts = [&](const simulation::fault_counts& x) {
    out.counts = x;
  };
  out.how = app::run_in_virtual_time(call.config, options);
  if (replays && out.how.status == 0)
    out.how = replay_lives(folder);
  std::filesystem::remove_all(folder);
  return out;
}

/// A folder in memory if possible, because thousands of checkpoints are synced.
inline std::filesystem::path soak_folder() {
  std::error_code error;
  std::filesystem::path memory{"/dev/shm"};
  return std::filesystem::is_directory(memory, error)
           ? memory
           : std::filesystem::temp_directory_path();
}

} // namespace troupe::test
