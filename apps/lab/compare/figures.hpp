#pragma once
// The results of the runs of a comparison, read from their run directories, and
// tables of them. Values and free functions, used on the main thread.

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace troupe::app {

/// One evaluation.
struct scored_point {
  double time = 0; ///< Virtual s.
  double accuracy = 0;
};

/// A worker's computation.
struct stretch {
  uint32_t worker = 0;
  double begin = 0; ///< Virtual s.
  double end = 0;
  bool cancelled = false;
};

/// One run.
struct run_figures {
  std::string label;
  uint64_t seed = 0;
  std::string failure; ///< Why it ended early; empty when it did not.
  uint64_t steps = 0;
  double seconds = 0;                      ///< Virtual.
  std::optional<double> seconds_to_target; ///< Virtual; none: not reached.
  double seconds_per_step = 0;
  double seconds_per_n = 0; ///< Per N applied gradients, N = workers.
  double wait_share = 0;
  double staleness_mean = 0;
  double staleness_max = 0;
  double accepted_share = 0; ///< Of all gradients decided on.
  double least_accepted = 0; ///< Smallest share of a worker; 1: all.
  std::optional<double> best_accuracy;
  double wall_seconds = 0;
  std::vector<scored_point> scores;
  std::vector<uint64_t> staleness; ///< [i]: applied gradients of staleness i.
  std::vector<stretch> timeline;   ///< Those that begin before `timeline_end`.
  double timeline_end = 0;         ///< Virtual s.
};

/// Reads `summary.json` and `metrics.jsonl`. Throws `run_error`.
run_figures read_run(const std::filesystem::path& folder,
                     const std::string& label,
                     std::optional<double> target_accuracy);

/// Mean and standard deviation (of a sample; 0 for one value).
struct spread {
  double mean = 0;
  double deviation = 0;
};

spread spread_of(const std::vector<double>& values);

/// The runs of one contender.
struct contender_figures {
  std::string label;
  std::vector<run_figures> runs;

  template <class Get>
  spread of(Get get) const {
    std::vector<double> values;
    for (const auto& run : runs)
      if (std::optional<double> value = get(run))
        values.push_back(*value);
    return spread_of(values);
  }

  size_t reached() const;
};

struct comparison {
  std::string command;
  std::optional<double> target_accuracy;
  std::vector<contender_figures> contenders; ///< Those with runs.
  size_t planned = 0; ///< Runs; a signal may have prevented some.

  size_t done() const; ///< Runs of all contenders.
};

/// A table for a terminal.
std::string to_table(const comparison& all);

/// One line for each run, after a header.
std::string to_csv(const comparison& all);

std::string to_json(const comparison& all);

} // namespace troupe::app
