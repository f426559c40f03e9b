#pragma once
// Builds the lines that show a user the progress of a run. Pure: builds text,
// writes nothing, reads no clock.
//
// Owned by the recorder; not thread-safe.

#include "actors/recording/metrics_log.hpp"
#include "messages/ids.hpp"

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::recording {

struct progress_figures {
  uint64_t step = 0;
  std::optional<uint64_t> max_steps;
  double epoch = 0;
  std::optional<double> loss;
  double samples_per_second = 0;
  /// The metric of the last evaluation that decides which weights are the best.
  std::optional<config::metric> score;
  std::optional<double> top5; ///< Of the same evaluation.
  uint32_t workers = 0;       ///< In the cluster now.
  uint32_t announced = 0;     ///< Connected; in the cluster or not yet.
  uint32_t missing = 0;       ///< Workers, if there are too few.
  /// policy::waiting_for(); of a run that pauses, who has left.
  std::vector<worker_id> waiting_for;
};

/// "accuracy 81.11 %", "top-5 98.61 %" or, for others, "loss 1.4102"
std::string metric_text(const config::metric& metric);

/// The texts of all metrics, with two blanks between them.
std::string metrics_text(const config::metrics& all);

/// "evaluation   step 20  accuracy 81.11 %  loss 1.4102  top-5 98.61 %"
std::string score_line(const evaluation_record& found);

/// Moves to the beginning of the terminal's line and clears the line.
inline constexpr std::string_view erase_line = "\r\x1b[K";

/// Minimal seconds between two sets of figures: users cannot read faster.
inline constexpr double figures_interval = 0.1;

class progress {
public:
  /// Makes what is written for a line, with its line feed.
  using line_maker = std::function<std::string(std::string_view)>;

  static std::string plain_line(std::string_view line);

  /// On a terminal (`width` > 0 columns) a single line is redrawn, at most five
  /// times a second; otherwise lines, as `make` makes them, are at least
  /// `interval` seconds apart.
  explicit progress(size_t width, double interval = 5,
                    line_maker make = plain_line);

  /// The text to write to stdout at `now` (seconds, any origin, never
  /// backwards), or nothing when it is too soon. Flush after writing.
  std::optional<std::string> show(const progress_figures& figures, double now);

  /// The same, due or not: for the last state before the end.
  std::string show_last(const progress_figures& figures);

  /// To be written before any other output, so that it does not mix with the
  /// progress line; empty when there is none.
  std::string clear();

private:
  std::string render(const progress_figures& figures);

  size_t width_;
  double interval_;
  line_maker make_;
  std::optional<double> last_;
  bool live_ = false;
};

/// The progress line without a line feed, cut to `width` columns (0: not cut).
/// The least important figures are left out first.
std::string progress_line(const progress_figures& figures, size_t width);

/// Says for how long no step was made, and for whom the run waits, of `wanted`
/// workers: "waiting      no step for 10 s: waits for worker 1"
std::string standstill_line(double seconds, const progress_figures& figures,
                            uint32_t wanted);

} // namespace troupe::recording
