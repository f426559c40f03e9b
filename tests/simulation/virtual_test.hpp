#pragma once
// Runs `trainer_node` under the virtual clock, in the process of the test.

#include "apps/lab/virtual_run.hpp"
#include "config/commands/command_line.hpp"
#include "tests/support/temporary_folder.hpp"

#include <nlohmann/json.hpp>

#include <fstream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

namespace troupe::test {

using nlohmann::json;
using words = std::vector<std::string>;

inline words operator+(words left, const words& right) {
  left.insert(left.end(), right.begin(), right.end());
  return left;
}

/// The part of a summary that must be the same when the same run is repeated.
inline json figures(json summary) {
  summary.erase("wall_seconds");
  summary.erase("shards");
  return summary;
}

inline std::string text_of_file(const std::filesystem::path& path) {
  std::ifstream in{path};
  std::ostringstream out;
  out << in.rdbuf();
  return out.str();
}

/// The result of a run.
struct virtual_outcome {
  json summary;
  std::string metrics;

  std::string sha256() const { return summary["state_sha256"]; }

  double seconds() const { return summary["virtual_seconds"]; }

  double seconds_per_step() const {
    return seconds() / summary["steps"].get<double>();
  }

  /// Virtual seconds for so many applied gradients.
  double seconds_per(double gradients) const {
    return seconds() * gradients / summary["gradients_applied"].get<double>();
  }
};

/// Runs `trainer_node --simulate --clock virtual ARGUMENTS` in `folder`.
inline virtual_outcome run_in(const std::filesystem::path& folder,
                              std::vector<std::string> arguments) {
  std::vector<std::string> all{"--simulate", "--clock", "virtual",
                               "--train-dir", folder.string()};
  all.insert(all.end(), arguments.begin(), arguments.end());
  auto call = config::parse_command_line(all, config::environment{});
  app::virtual_run_options options;
  options.silent = true;
  auto end = app::run_in_virtual_time(call.config, options);
  if (end.status != 0)
    throw std::runtime_error("the run failed: " + end.line);
  return {json::parse(text_of_file(folder / "summary.json")),
          text_of_file(folder / "metrics.jsonl")};
}

inline virtual_outcome run(const std::vector<std::string>& arguments) {
  testing::temporary_folder folder;
  return run_in(folder / "run", arguments);
}

/// The settings of a run by its number: over all kinds of settings.
inline std::vector<std::string> various(uint64_t seed, uint64_t steps,
                                        uint64_t eval_freq = 1000) {
  const char* policies[] = {"sync",  "backup",   "ssp",
                            "async", "buffered", "quorum"};
  const char* times[] = {"exp(offset=0.5,mean=0.5)", "gamma(mean=1,cv=0.3)",
                         "transient(base=constant(1),p=0.1,factor=5)",
                         "pareto(alpha=2.5,mean=1)", "constant(1)"};
  std::vector<std::string> out{
    "--seed",         std::to_string(seed),
    "--policy",       policies[seed % 6],
    "--late",         seed % 8 < 4 ? "drop" : "cancel",
    "--workers",      std::to_string(2 + seed % 5),
    "--compute-time", times[seed % 5],
    "--link-latency", seed % 3 == 0 ? "0.01" : "0",
    "--link-rate",    seed % 6 == 0 ? "1e8" : "1e12",
    "--batch-size",   "8",
    "--max-steps",    std::to_string(steps),
    "--eval-freq",    std::to_string(eval_freq)};
  auto add = [&](std::vector<std::string> more) {
    out.insert(out.end(), more.begin(), more.end());
  };
  if (seed % 5 == 2)
    add({"--local-steps",
         seed % 4 == 3 ? "auto(max=6)" : std::to_string(1 + seed % 4),
         "--inner-optimizer",
         seed % 2 == 0 ? "adamw(lr=0.001)" : "sgd(lr=0.03)"});
  if (seed % 6 > 1 && seed % 4 == 1)
    add({"--staleness-rule", "polynomial"});
  if (seed % 6 > 1 && seed % 4 == 2)
    add({"--staleness-rule", "delayed-nesterov"});
  return out;
}

} // namespace troupe::test
