#pragma once
// The report of a comparison: one HTML file that contains its plots. Called
// once, on the main thread.

#include "apps/lab/compare/figures.hpp"

#include <string>

namespace troupe::app {

/// Writes `report.html` into the folder, and each plot to `plots/<name>.svg`.
/// Throws `run_error` when gnuplot or the disk fails.
void write_page(const comparison& all, const std::filesystem::path& folder);

} // namespace troupe::app
