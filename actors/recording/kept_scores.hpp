#pragma once
// scores.jsonl: what an evaluator without a parameter server has found of the
// checkpoints of a run, a line for each, with the best one so far. The lines
// are those of metrics.jsonl (docs/formats.md).
//
// Owned by the follower, on its thread; not thread-safe.

#include "actors/recording/metrics_log.hpp"

#include <filesystem>
#include <optional>
#include <string>

namespace troupe::recording {

class kept_scores {
public:
  static constexpr const char* file = "scores.jsonl";

  /// Opens the file in `folder`, with the lines of earlier starts. Throws
  /// `run_error` when it cannot be written.
  /// @param order Which score is the best; nothing: as is usual.
  kept_scores(const std::filesystem::path& folder, const start_record& run,
              std::optional<config::metric_order> order);

  /// The step that was scored last of this run, if any was.
  std::optional<uint64_t> last() const { return last_; }

  /// Writes a line. Throws `run_error` (disk full).
  void add(evaluation_record found);

private:
  /// Whether the last lines in the file are of this run.
  bool load(const std::filesystem::path& path, std::string_view run_id);

  std::optional<config::metric_order> order_;
  std::optional<uint64_t> last_;
  std::optional<best_checkpoint> best_;
  std::optional<metrics_log> log_;
};

} // namespace troupe::recording
