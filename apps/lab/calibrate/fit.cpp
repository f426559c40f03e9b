#include "apps/lab/calibrate/fit.hpp"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>
#include <limits>
#include <numeric>
#include <optional>

namespace troupe::app {

namespace {

using numbers = std::vector<double>;

constexpr auto infinite = std::numeric_limits<double>::infinity();

/// Values that differ by no more count as equal: the clock has nanoseconds.
constexpr double clock_error = 4e-9;
constexpr double relative_error = 1e-6;

/// A worker that is slower by a smaller factor does not count as slow.
constexpr double least_factor = 1.2;
constexpr size_t fewest_of_a_worker = 10;
constexpr uint32_t most_slow_workers = 4;

/// A narrower gamma is written as a constant.
constexpr double least_cv = 1e-4;

std::string value_text(double x) {
  char out[32];
  std::snprintf(out, sizeof out, "%.5g", x);
  return out;
}

at::Tensor tensor_of(const numbers& values) {
  return at::tensor(values, at::kDouble);
}

double mean(const numbers& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) /
         static_cast<double>(values.size());
}

double mean_log(const numbers& values) {
  double sum = 0;
  for (auto x : values)
    sum += std::log(x);
  return sum / static_cast<double>(values.size());
}

/// A distribution with fitted parameters.
struct fitted {
  std::string family;
  std::string text;
  size_t parameters = 0;
  double log_likelihood = -infinite;
  std::function<numbers(const numbers&)> below; ///< P(T < t)
};

// -- the families -------------------------------------------------------------

/// By how much a measured time may differ from the true one.
double slack(double x) {
  return clock_error + relative_error * x;
}

bool is_constant(const numbers& sorted) {
  return sorted.back() - sorted.front() <= slack(sorted.front());
}

numbers step_at(double value, const numbers& at) {
  numbers shares;
  for (auto t : at)
    shares.push_back(t < value ? 0 : 1);
  return shares;
}

fitted fit_constant(const numbers& sorted) {
  auto value = quantile(sorted, 0.5);
  fitted out{
    "constant", "constant(" + value_text(value) + ")", 1, -infinite, {}};
  if (is_constant(sorted))
    out.log_likelihood = infinite;
  out.below = [=](const numbers& at) {
    return step_at(value, at);
  };
  return out;
}

double digamma(double x) {
  return at::digamma(at::scalar_tensor(x, at::kDouble)).item<double>();
}

double trigamma(double x) {
  return at::polygamma(1, at::scalar_tensor(x, at::kDouble)).item<double>();
}

/// The shape of a gamma from log(mean) - mean(log).
double gamma_shape(double s) {
  constexpr double narrowest = 1e-10;
  s = std::max(s, narrowest);
  auto k = (3 - s + std::sqrt((s - 3) * (s - 3) + 24 * s)) / (12 * s);
  if (k > 1e4) // The starting point is exact to 1e-6 here.
    return k;
  for (int i = 0; i < 50; ++i) {
    auto step = (std::log(k) - digamma(k) - s) / (1 / k - trigamma(k));
    k = std::max(k - step, k / 2);
    if (std::abs(step) < 1e-10 * k)
      break;
  }
  return k;
}

double gamma_log_density(double x, double shape, double scale) {
  return (shape - 1) * std::log(x) - x / scale - shape * std::log(scale) -
         std::lgamma(shape);
}

numbers gamma_below(const numbers& at, double shape, double scale) {
  auto found = at::special_gammainc(
    at::full({static_cast<int64_t>(at.size())}, shape, at::kDouble),
    tensor_of(at) / scale);
  const auto* first = found.const_data_ptr<double>();
  return {first, first + found.numel()};
}

bool is_narrow(double shape) {
  return 1 / std::sqrt(shape) < least_cv;
}

std::string gamma_text(double mean, double shape) {
  if (is_narrow(shape))
    return "constant(" + value_text(mean) + ")";
  return "gamma(mean=" + value_text(mean) +
         ",cv=" + value_text(1 / std::sqrt(shape)) + ")";
}

fitted fit_gamma(const numbers& sorted) {
  auto m = mean(sorted);
  auto shape = gamma_shape(std::log(m) - mean_log(sorted));
  auto scale = m / shape;
  fitted out{"gamma", gamma_text(m, shape), 2, 0, {}};
  for (auto x : sorted)
    out.log_likelihood += gamma_log_density(x, shape, scale);
  out.below = [=](const numbers& at) {
    return gamma_below(at, shape, scale);
  };
  return out;
}

fitted make_exponential(const numbers& sorted, double offset, double m,
                        size_t parameters) {
  fitted out{"exp",
             "exp(offset=" + value_text(offset) + ",mean=" + value_text(m) +
               ")",
             parameters,
             0,
             {}};
  for (auto x : sorted)
    out.log_likelihood -= std::log(m) + std::max(0.0, x - offset) / m;
  out.below = [=](const numbers& at) {
    numbers shares;
    for (auto t : at)
      shares.push_back(t < offset ? 0 : -std::expm1(-(t - offset) / m));
    return shares;
  };
  return out;
}

/// Leaves the offset out if the smallest value is as small as it would be
/// without one.
fitted fit_exponential(const numbers& sorted) {
  auto n = static_cast<double>(sorted.size());
  auto least = sorted.front();
  auto above = mean(sorted) - least;
  if (least * n < 4 * above)
    return make_exponential(sorted, 0, mean(sorted), 1);
  auto m = std::max(above * n / (n - 1), 1e-12);
  return make_exponential(sorted, std::max(0.0, least - m / n), m, 2);
}

std::optional<fitted> fit_pareto(const numbers& sorted) {
  auto n = static_cast<double>(sorted.size());
  auto least = sorted.front();
  auto spread = mean_log(sorted) - std::log(least);
  auto alpha = (n - 2) / (n * spread);
  if (!(alpha > 1) || !std::isfinite(alpha))
    return std::nullopt; // It would have no mean.
  fitted out{"pareto",
             "pareto(alpha=" + value_text(alpha) +
               ",mean=" + value_text(least * alpha / (alpha - 1)) + ")",
             2,
             n * (std::log(alpha) + alpha * std::log(least)) -
               (alpha + 1) * n * mean_log(sorted),
             {}};
  out.below = [=](const numbers& at) {
    numbers shares;
    for (auto t : at)
      shares.push_back(t < least ? 0 : 1 - std::pow(least / t, alpha));
    return shares;
  };
  return out;
}

// -- transient ----------------------------------------------------------------

/// A gamma, and with probability p the same one stretched by a factor.
struct mixture {
  double p = 0;
  double factor = 1;
  double mean = 1;
  double shape = 1;
  double log_likelihood = -infinite;
};

/// Returns the probability that each value is a stretched one; sets the
/// mixture's likelihood.
numbers expect(mixture& fit, const numbers& values) {
  auto scale = fit.mean / fit.shape;
  auto usual = std::log1p(-fit.p);
  auto hit = std::log(fit.p);
  fit.log_likelihood = 0;
  numbers out;
  for (auto x : values) {
    auto a = usual + gamma_log_density(x, fit.shape, scale);
    auto b = hit + gamma_log_density(x, fit.shape, scale * fit.factor);
    auto top = std::max(a, b);
    auto sum = top + std::log(std::exp(a - top) + std::exp(b - top));
    fit.log_likelihood += sum;
    out.push_back(std::exp(b - sum));
  }
  return out;
}

/// False when one component is empty.
bool maximise(mixture& fit, const numbers& values, const numbers& stretched) {
  double hits = 0, sum_hit = 0, sum_usual = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    hits += stretched[i];
    sum_hit += stretched[i] * values[i];
    sum_usual += (1 - stretched[i]) * values[i];
  }
  auto n = static_cast<double>(values.size());
  if (hits < 1 || n - hits < 1)
    return false;
  fit.p = hits / n;
  fit.mean = sum_usual / (n - hits);
  fit.factor = sum_hit / hits / fit.mean;
  auto s = std::log(fit.mean) + fit.p * std::log(fit.factor) - mean_log(values);
  fit.shape = gamma_shape(s);
  return fit.factor > 0;
}

mixture improve(const numbers& sorted, size_t usual) {
  numbers stretched(sorted.size(), 0);
  std::fill(stretched.begin() + static_cast<ptrdiff_t>(usual), stretched.end(),
            1);
  mixture out, next;
  for (int i = 0; i < 500; ++i) {
    if (!maximise(next, sorted, stretched))
      break;
    stretched = expect(next, sorted);
    auto gain = next.log_likelihood - out.log_likelihood;
    if (!std::isfinite(next.log_likelihood))
      break;
    out = next;
    if (gain < 1e-7 * std::abs(out.log_likelihood))
      break;
  }
  return out;
}

/// Where the sorted values have their widest gap, by ratio, in the upper half.
size_t widest_gap(const numbers& sorted) {
  auto best = sorted.size() / 2;
  for (auto i = best; i + 1 < sorted.size(); ++i)
    if (sorted[i + 1] / sorted[i] > sorted[best + 1] / sorted[best])
      best = i;
  return best + 1;
}

std::optional<fitted> fit_transient(const numbers& sorted) {
  mixture best;
  std::vector<size_t> starts{widest_gap(sorted)};
  for (auto share : {0.5, 0.7, 0.8, 0.9, 0.95, 0.98})
    starts.push_back(
      static_cast<size_t>(share * static_cast<double>(sorted.size())));
  for (auto usual : starts)
    if (auto found = improve(sorted, usual);
        found.log_likelihood > best.log_likelihood)
      best = found;
  if (!std::isfinite(best.log_likelihood) || best.factor < least_factor)
    return std::nullopt;
  fitted out{"transient",
             "transient(base=" + gamma_text(best.mean, best.shape) + ",p=" +
               value_text(best.p) + ",factor=" + value_text(best.factor) + ")",
             4,
             best.log_likelihood,
             {}};
  out.below = [best](const numbers& at) {
    auto scale = best.mean / best.shape;
    auto narrow = is_narrow(best.shape);
    auto usual =
      narrow ? step_at(best.mean, at) : gamma_below(at, best.shape, scale);
    auto hit = narrow ? step_at(best.mean * best.factor, at)
                      : gamma_below(at, best.shape, scale * best.factor);
    for (size_t i = 0; i < usual.size(); ++i)
      usual[i] = (1 - best.p) * usual[i] + best.p * hit[i];
    return usual;
  };
  return out;
}

// -- candidates ---------------------------------------------------------------

/// The Kolmogorov-Smirnov distance. Values that differ only by the clock's
/// error form one step, of which both sides are compared.
double distance(const fitted& fit, const numbers& sorted) {
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
  double greatest = -infinite;
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
  std::vector<fitted> found{fit_constant(sorted)};
  if (!is_constant(sorted)) {
    found.push_back(fit_gamma(sorted));
    found.push_back(fit_exponential(sorted));
    for (const auto& one : {fit_pareto(sorted), fit_transient(sorted)})
      if (one)
        found.push_back(*one);
  }
  std::vector<candidate> out;
  for (const auto& one : found) {
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

double quantile(const std::vector<double>& values, double p) {
  auto at = p * static_cast<double>(values.size() - 1);
  auto below = static_cast<size_t>(at);
  auto above = std::min(below + 1, values.size() - 1);
  auto part = at - static_cast<double>(below);
  return values[below] + part * (values[above] - values[below]);
}

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
