#pragma once
// The page of a comparison: one HTML file with its plots inside. The drawing is
// gnuplot's.

#include "apps/compare/figures.hpp"

#include <string>

namespace troupe::app {

/// Whether there is a gnuplot to draw with.
bool can_draw();

/// The page. Plots are drawn in `folder`, which must exist, and removed there.
/// Throws `run_error` when gnuplot fails.
std::string to_page(const comparison& all, const std::filesystem::path& folder);

} // namespace troupe::app
