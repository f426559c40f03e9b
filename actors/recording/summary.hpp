#pragma once
// summary.json: the results of a run. Filled in by the parameter server,
// written by the recorder. A value; pure, except for `write_summary`.

#include "actors/recording/first_failure.hpp"
#include "config/sources/resolve.hpp"
#include "config/values/metrics.hpp"

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace troupe::recording {

/// The fields are the keys of the file, in its order; an absent value is null.
struct summary {
  struct staleness_summary {
    double mean = 0; ///< In versions.
    uint64_t max = 0;
    std::vector<uint64_t> histogram; ///< [i]: applied gradients of staleness i.
  };

  std::string status; ///< completed | stopped | failed
  std::string policy;
  uint64_t steps = 0;
  double epochs = 0; ///< Samples applied / samples in the data set.
  uint32_t workers = 0;
  uint32_t shards = 1;
  uint64_t samples_applied = 0;
  uint64_t samples_dropped = 0;
  uint64_t gradients_applied = 0;
  uint64_t gradients_dropped = 0;
  uint64_t gradients_refused = 0;
  uint64_t samples_left_out = 0; ///< Of complete epochs, never applied.
  /// Of those applied: in some fragments of the weights only.
  uint64_t samples_partly_applied = 0;
  uint64_t samples_skipped = 0; ///< Damaged and replaced by others.
  uint64_t fp16_overflows = 0;  ///< Batches that were computed again.
  double wall_seconds = 0;
  std::optional<double> virtual_seconds;
  double samples_per_second = 0;
  /// The metrics of the last version; final_loss, final_accuracy and
  /// final_accuracy_top5 are taken from these.
  std::optional<config::metrics> final_metrics;
  /// By which metric the best is chosen, for best_accuracy and best_metric.
  std::optional<config::metric_order> best_by;
  std::optional<double> best_value;
  std::optional<uint64_t> best_step;
  /// The file of the best weights in the run directory.
  std::optional<std::string> best_weights;
  staleness_summary staleness;
  double wait_share = 0;
  double data_wait_share = 0;
  std::string mode;         ///< data-parallel | remote-forward | pipeline
  uint32_t local_steps = 0; ///< Of a worker between two pushes; 0: none.
  /// Pipelines: share of their time in which stages had nothing to do.
  std::optional<double> bubble_share;
  /// Remote modules: contexts that were open when training had ended.
  std::optional<uint64_t> contexts_left;
  std::vector<std::optional<double>> accepted_share; ///< Per worker.
  std::optional<std::string> weights_sha256;
  /// Digest of parameters, running statistics and the optimiser's slots.
  std::optional<std::string> state_sha256;
  uint64_t seed = 0;
  std::string sharding;                         ///< leased | static | local
  std::map<std::string, std::string> transport; ///< "worker-0": "inproc"
  /// Tensors that each node sends to others and gets from them, by rank;
  /// nothing where parts of the network are on servers, or without a step.
  std::optional<std::vector<double>> bytes_sent_per_step;
  std::optional<std::vector<double>> bytes_received_per_step;
  /// Settings that the user changed when the run was resumed.
  std::vector<config::change> changes;
  /// Per worker: its mean time for a step beside the median of all workers'.
  std::vector<std::optional<double>> slowness;
  /// Of this start of the run; its time is s since the run began.
  std::optional<failed_process> first_failure;
  std::string troupe_version;
};

/// The text of the file, with a line feed at its end.
std::string to_json(const summary& results);

/// Writes `path` atomically: it is complete at any time. Throws `run_error`.
void write_summary(const std::filesystem::path& path, const summary& result);

} // namespace troupe::recording
