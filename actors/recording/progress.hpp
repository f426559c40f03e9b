#pragma once
// The line that tells a watcher how the run goes. Pure: builds text, writes
// nothing, reads no clock.

#include "messages/ids.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace troupe::recording {

struct progress_figures {
  uint64_t step = 0;
  std::optional<uint64_t> max_steps;
  double epoch = 0;
  std::optional<double> loss;
  double samples_per_second = 0;
  std::optional<double> accuracy;     ///< Of the last evaluation.
  std::optional<double> top5;         ///< The same of the five highest.
  uint32_t workers = 0;               ///< In the cluster now.
  std::vector<worker_id> waiting_for; ///< policy::waiting_for()
};

/// s between two sets of figures, when updates come faster than anybody reads.
inline constexpr double figures_interval = 0.1;

class progress {
public:
  /// On a terminal (`width` > 0 columns) one live line that is drawn over
  /// itself, at most five times a second; else plain lines, each after at least
  /// `interval` s.
  explicit progress(size_t width, double interval = 5);

  /// What to write to stdout at `now` (s, any origin, never backwards), or
  /// nothing when it is too soon. Flush after writing.
  std::optional<std::string> show(const progress_figures& what, double now);

  /// The same, due or not: the last state before the end.
  std::string show_last(const progress_figures& what);

  /// To be written before any other line of output, so that it does not mix
  /// with the live line; empty when there is none.
  std::string clear();

private:
  std::string render(const progress_figures& what);

  size_t width_;
  double interval_;
  std::optional<double> last_;
  bool live_ = false;
};

/// The line itself, without line ends, cut to `width` columns (0: not cut).
/// What matters least is left out first.
std::string progress_line(const progress_figures& what, size_t width);

} // namespace troupe::recording
