#include "apps/lab/compare/progress.hpp"

#include <cmath>
#include <cstdio>

namespace troupe::app {

double seconds_left(const comparison& all, size_t contenders, uint64_t seeds) {
  double seconds = 0;
  size_t done = 0;
  double left = 0;
  for (const auto& one : all.contenders) {
    auto mean =
      one.of([](const run_figures& x) { return x.wall_seconds; }).mean;
    auto count = static_cast<double>(one.runs.size());
    seconds += mean * count;
    done += one.runs.size();
    left += mean * (static_cast<double>(seeds) - count);
  }
  auto unknown =
    static_cast<double>((contenders - all.contenders.size()) * seeds);
  return left + unknown * seconds / static_cast<double>(done);
}

std::string in_words(double seconds) {
  char text[32];
  if (seconds < 99.5)
    std::snprintf(text, sizeof text, "%.0f s", std::ceil(seconds));
  else if (seconds < 99.5 * 60)
    std::snprintf(text, sizeof text, "%.0f min", seconds / 60);
  else
    std::snprintf(text, sizeof text, "%.1f h", seconds / 3600);
  return text;
}

} // namespace troupe::app
