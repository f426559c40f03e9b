#pragma once
// The plots of a comparison, drawn by gnuplot as a child process. Free
// functions, called on the main thread.

#include "apps/lab/compare/figures.hpp"

#include <string>
#include <vector>

namespace troupe::app {

/// Whether gnuplot is installed.
bool can_draw();

/// One picture.
struct plot {
  std::string name; ///< The file's name, without `.svg`.
  std::string svg;
};

/// Time to the target for each policy; empty when no run reached it, or there
/// is no target. This and the following throw `run_error` when gnuplot fails.
std::optional<plot> target_plot(const comparison& all);

/// Accuracy over virtual time, one line per run; empty when nothing was scored.
std::optional<plot> accuracy_plot(const comparison& all);

/// Shares of applied gradients by staleness, one line per policy.
plot staleness_plot(const comparison& all);

/// When each worker computes and waits: the first run of each policy, in their
/// order, all cut to the length of the shortest.
std::vector<plot> timeline_plots(const comparison& all);

} // namespace troupe::app
