#pragma once
// A TensorBoard event file: records framed as TFRecords, each an Event message.
// Each record is written at once, unless records are buffered.
//
// TensorBoard shows `wall_time`, which is the start (time of day) plus the
// run's time. In virtual time the start is 0, so that the file depends on
// nothing but the run.
//
// Owned by the recorder, called on its thread; not thread-safe.

#include "config/text/descriptor.hpp"
#include "config/values/metrics.hpp"

#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace troupe::proto::tensorboard {
class Event;
} // namespace troupe::proto::tensorboard

namespace troupe::recording {

/// The figures of a step; one that is missing, or not finite, is left out.
struct update_scalars {
  std::optional<double> loss = {};               ///< train/loss
  std::optional<double> samples_per_second = {}; ///< train/samples_per_second
  std::optional<double> staleness_mean = {};     ///< train/staleness_mean
  std::optional<double> lr = {};                 ///< train/lr
  std::span<const config::metric> metrics = {};  ///< train/NAME
};

class tensorboard_log {
public:
  /// Creates the next event file in `folder`. `start` is in seconds since 1970;
  /// with `resume_step`, TensorBoard discards older points from that step on.
  /// Records are buffered up to `gathers` bytes. Throws `run_error` when the
  /// file cannot be created.
  tensorboard_log(const std::filesystem::path& folder, double start,
                  std::optional<uint64_t> resume_step = std::nullopt,
                  size_t gathers = 0);

  ~tensorboard_log();

  tensorboard_log(const tensorboard_log&) = delete;
  tensorboard_log& operator=(const tensorboard_log&) = delete;

  /// Writes the figures of a step. Throws `run_error` (disk full).
  /// @param time Seconds since the run began.
  void update(uint64_t step, double time, const update_scalars& scalars);

  /// eval/NAME for each metric that is a number.
  void evaluation(uint64_t step, double time, const config::metrics& found);

  /// Writes the buffered records. Throws `run_error` (disk full).
  void flush();

  const std::filesystem::path& path() const noexcept { return path_; }

private:
  void append(const proto::tensorboard::Event& event);
  proto::tensorboard::Event event_at(uint64_t step, double time) const;
  void append_scalars(const proto::tensorboard::Event& event);

  std::filesystem::path path_;
  double start_;
  size_t gathers_;
  std::string gathered_;
  config::descriptor file_;
};

} // namespace troupe::recording
