#pragma once
// The plots of a comparison. The drawing is gnuplot's.

#include "apps/lab/compare/figures.hpp"

#include <string>
#include <vector>

namespace troupe::app {

/// Whether there is a gnuplot to draw with.
bool can_draw();

/// One picture.
struct plot {
  std::string name; ///< Of its file, without `.svg`.
  std::string svg;
};

/// Time to the target of each policy; empty when nothing reached it, or there
/// is none. Like those below it throws `run_error` when gnuplot fails.
std::optional<plot> target_plot(const comparison& all);

/// Accuracy over virtual time, a line a run; empty when nothing was scored.
std::optional<plot> accuracy_plot(const comparison& all);

/// Shares of applied gradients by staleness, a line a policy.
plot staleness_plot(const comparison& all);

/// Who computes and who waits: the first run of each policy, in their order,
/// all as long as the shortest.
std::vector<plot> timeline_plots(const comparison& all);

} // namespace troupe::app
