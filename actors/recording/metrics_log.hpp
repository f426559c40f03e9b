#pragma once
// metrics.jsonl: one JSON object per line for each update, evaluation and
// event. Every line begins with `kind`, `step`, `time` (seconds since the run
// began, on the run's clock); the keys of a kind always come in the same order.
// NaN and infinity are written as null. docs/formats.md lists the lines.
//
// Owned by the recorder, called on its thread; not thread-safe. Throws
// `run_error` when the disk is full.

#include "actors/core/norm_watch.hpp"
#include "actors/log_files/line_file.hpp"
#include "config/sources/resolve.hpp"
#include "config/values/metrics.hpp"
#include "messages/ids.hpp"

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::recording {

/// One gradient of an update.
struct applied_gradient {
  worker_id worker;
  uint64_t staleness = 0; ///< In versions.
  uint64_t samples = 0;
};

/// A step: the weights became version `step`.
struct update_record {
  uint64_t step = 0;
  double time = 0;
  double loss = 0;  ///< Mean over the samples of the gradients.
  double epoch = 0; ///< Samples applied / samples in the data set.
  double lr = 0;
  std::span<const applied_gradient> gradients;
  std::span<const config::metric> metrics = {}; ///< Besides the loss.
};

/// The best of several scores.
struct best_checkpoint {
  uint64_t step = 0;
  std::string metric;
  double value = 0;
};

struct evaluation_record {
  uint64_t step = 0; ///< The version that was scored.
  double time = 0;
  uint64_t samples = 0;
  config::metrics metrics;
  std::optional<best_checkpoint> best = {}; ///< Only in scores.jsonl.
};

/// How a run begins.
struct start_record {
  uint64_t step = 0;
  double time = 0;
  std::string_view run_id;
  std::string_view network;
  std::string_view dataset;
  std::string_view policy; ///< Its name.
  uint32_t workers = 0;
  uint32_t shards = 1;
  uint64_t seed = 0;
};

class metrics_log {
public:
  using mode = line_file::mode;

  /// @param gathers See `line_file`.
  metrics_log(const std::filesystem::path& path, mode how, size_t gathers = 0);

  /// Writes the buffered lines.
  void flush() { file_.flush(); }

  void update(const update_record& record);
  void evaluation(const evaluation_record& record);

  // -- events -----------------------------------------------------------------

  void started(const start_record& record);

  /// A run continues from the checkpoint of `step`. `lost` updates made after
  /// it are rolled back (empty when that is not known). This start changed
  /// these settings.
  void resumed(uint64_t step, double time, life_number ps,
               std::optional<uint64_t> lost,
               std::span<const config::change> changes = {});

  void joined(uint64_t step, double time, worker_id who, life_number life);
  void left(uint64_t step, double time, worker_id who, life_number life,
            std::string_view reason);

  /// So many workers are there, in a cluster whose number of workers varies;
  /// with `paused` they are too few. @param momentum If it varies, too.
  void members(uint64_t step, double time, uint32_t count, bool paused,
               std::optional<double> momentum);

  /// A gradient came too late (`late`: drop).
  void dropped(uint64_t step, double time, worker_id who, uint64_t staleness,
               uint64_t samples);

  /// A computation was cancelled (`late`: cancel).
  void cancelled(uint64_t step, double time, worker_id who);

  /// A gradient was not accepted: wrong size, not finite, an outlier.
  void refused(uint64_t step, double time, worker_id who,
               std::string_view reason,
               const std::optional<cores::judged_norm>& norm = {});

  /// Epoch `number` (0, 1, ...) is complete.
  /// @param slowness Of the workers in this epoch; see run_statistics.
  void epoch(uint64_t step, double time, uint64_t number,
             const std::vector<std::optional<double>>& slowness = {});

  void checkpoint(uint64_t step, double time, std::string_view name);

  /// From this step on the run has another policy.
  /// @param momentum If it has changed, too.
  void policy_changed(uint64_t step, double time, std::string_view policy,
                      std::optional<double> momentum);

  /// A warning that did not end the run.
  void warning(uint64_t step, double time, std::string_view text);

  void stopping(uint64_t step, double time, std::string_view reason);
  void finished(uint64_t step, double time, std::string_view status);

  /// Bytes of an incomplete end that were cut when the log was opened to
  /// resume.
  uint64_t cut() const noexcept { return file_.cut(); }

private:
  line_file file_;
  std::string line_; ///< Reused memory for the line of an update.
};

} // namespace troupe::recording
