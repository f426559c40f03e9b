#include "actors/worker/report_sum.hpp"

#include <algorithm>

namespace troupe {

namespace {

/// Adds the metrics of a step, each times its samples; overflows are counted.
void add_to_means(config::metrics& to, const gradient_report& step) {
  for (const auto& [name, value] : step.metrics) {
    auto its = name == config::native_metrics::overflows
                 ? value
                 : value * static_cast<double>(step.samples);
    auto found = std::ranges::find(to, name, &config::metric::name);
    if (found == to.end())
      to.push_back({name, its});
    else
      found->value += its;
  }
}

} // namespace

void report_sum::add(const gradient_report& step) {
  if (step.samples > 0)
    loss_ += step.loss * static_cast<double>(step.samples);
  sum_.samples += step.samples;
  sum_.seconds = sum_.seconds + step.seconds;
  sum_.waited = sum_.waited + step.waited;
  sum_.skipped += step.skipped;
  add_to_means(sum_.metrics, step);
  sum_.gradient = step.gradient;
  if (step.statistics)
    sum_.statistics = step.statistics;
  sum_.inner_steps = step.inner_steps;
}

gradient_report report_sum::mean() const {
  auto out = sum_;
  auto samples = static_cast<double>(out.samples);
  out.loss = loss_ / samples;
  for (auto& one : out.metrics)
    if (one.name != config::native_metrics::overflows)
      one.value /= samples;
  return out;
}

} // namespace troupe
