#include "apps/lab/calibrate/fit.hpp"

#include "apps/lab/calibrate/families.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

namespace troupe::app {

namespace {

/// A worker with fewer times does not count as slow.
constexpr size_t fewest_of_a_worker = 10;
constexpr uint32_t most_slow_workers = 4;

/// The Kolmogorov-Smirnov distance. Values that differ only by the clock's
/// error form one step, of which both sides are compared.
double distance(const fitted_distribution& fit, const numbers& sorted) {
  auto n = static_cast<double>(sorted.size());
  numbers before, after;
  for (auto x : sorted) {
    before.push_back(x - slack(x));
    after.push_back(x + slack(x));
  }
  auto less = fit.below(before);
  auto not_more = fit.below(after);
  double out = 0;
  size_t first = 0, last = 0; // Of those equal to the i-th.
  for (size_t i = 0; i < sorted.size(); ++i) {
    while (sorted[first] < before[i])
      ++first;
    while (last < sorted.size() && sorted[last] <= after[i])
      ++last;
    out = std::max({out, static_cast<double>(last) / n - not_more[i],
                    less[i] - static_cast<double>(first) / n});
  }
  return out;
}

/// A worker that counts as slow. Lists of them are in the order in which they
/// were found.
struct slow_worker {
  uint32_t worker;
  double factor;
};

using worker_times = std::map<uint32_t, numbers>;

numbers all_of(const worker_times& by_worker) {
  numbers out;
  for (const auto& [worker, times] : by_worker)
    out.insert(out.end(), times.begin(), times.end());
  std::sort(out.begin(), out.end());
  return out;
}

bool is_among(const std::vector<slow_worker>& known, uint32_t worker) {
  return std::any_of(known.begin(), known.end(),
                     [=](const auto& one) { return one.worker == worker; });
}

/// The slowest of those that do not count as slow yet.
std::optional<uint32_t> slowest(const worker_times& by_worker,
                                const std::vector<slow_worker>& known) {
  std::optional<uint32_t> out;
  size_t others = 0;
  double greatest = -std::numeric_limits<double>::infinity();
  for (const auto& [worker, times] : by_worker) {
    if (is_among(known, worker))
      continue;
    ++others;
    if (times.size() < fewest_of_a_worker || mean_log(times) <= greatest)
      continue;
    greatest = mean_log(times);
    out = worker;
  }
  return others < 2 ? std::nullopt : out;
}

/// Each factor is relative to the workers that are not slow.
void find_factors(const worker_times& by_worker,
                  std::vector<slow_worker>& slow) {
  numbers others;
  for (const auto& [worker, times] : by_worker)
    if (!is_among(slow, worker))
      others.insert(others.end(), times.begin(), times.end());
  auto usual = mean_log(others);
  for (auto& one : slow)
    one.factor = std::exp(mean_log(by_worker.at(one.worker)) - usual);
}

/// The times as if no worker were slow. `stretch` becomes the sum of
/// log(factor) over the slow workers' times.
numbers without(const std::vector<slow_worker>& slow, worker_times by_worker,
                double& stretch) {
  stretch = 0;
  for (const auto& one : slow) {
    auto& times = by_worker.at(one.worker);
    for (auto& x : times)
      x /= one.factor;
    stretch += static_cast<double>(times.size()) * std::log(one.factor);
  }
  return all_of(by_worker);
}

std::string within(const std::vector<slow_worker>& slow, std::string base) {
  for (const auto& one : slow)
    base = "slow(base=" + base + ",worker=" + std::to_string(one.worker) +
           ",factor=" + value_text(one.factor) + ")";
  return base;
}

/// Fits every family to times from which the effect of slow workers is removed.
std::vector<candidate> fit_all(const numbers& sorted,
                               const std::vector<slow_worker>& slow,
                               double stretch) {
  std::vector<candidate> out;
  for (const auto& one : fit_families(sorted)) {
    candidate next;
    next.compute_time = within(slow, one.text);
    next.family = one.family;
    next.slow_workers = static_cast<uint32_t>(slow.size());
    next.parameters = one.parameters + 2 * slow.size(); // Which, how much.
    next.distance = distance(one, sorted);
    next.criterion = -2 * (one.log_likelihood - stretch) +
                     static_cast<double>(next.parameters) *
                       std::log(static_cast<double>(sorted.size()));
    out.push_back(std::move(next));
  }
  return out;
}

bool is_better(const candidate& x, const candidate& y) {
  if (x.criterion == y.criterion)
    return x.parameters < y.parameters;
  return x.criterion < y.criterion;
}

} // namespace

// Slow workers are added one by one, as long as that improves the criterion.
std::vector<candidate>
fit_compute_times(const std::map<uint32_t, std::vector<double>>& by_worker) {
  auto out = fit_all(all_of(by_worker), {}, 0);
  std::sort(out.begin(), out.end(), is_better);
  std::vector<slow_worker> slow;
  while (slow.size() < most_slow_workers) {
    auto next = slowest(by_worker, slow);
    if (!next)
      break;
    slow.push_back({*next, 1});
    find_factors(by_worker, slow);
    if (slow.back().factor < least_factor)
      break;
    double stretch = 0;
    auto sorted = without(slow, by_worker, stretch);
    auto more = fit_all(sorted, slow, stretch);
    std::sort(more.begin(), more.end(), is_better);
    auto gained = is_better(more.front(), out.front());
    out.insert(out.end(), more.begin(), more.end());
    std::sort(out.begin(), out.end(), is_better);
    if (!gained)
      break;
  }
  return out;
}

} // namespace troupe::app
