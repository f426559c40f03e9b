#include "apps/lab/calibrate/families.hpp"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <numeric>
#include <optional>

namespace troupe::app {

namespace {

constexpr auto infinite = std::numeric_limits<double>::infinity();

/// Values that differ by no more count as equal: the clock has nanoseconds.
constexpr double clock_error = 4e-9;
constexpr double relative_error = 1e-6;

/// A narrower gamma is written as a constant.
constexpr double least_cv = 1e-4;

at::Tensor tensor_of(const numbers& values) {
  return at::tensor(values, at::kDouble);
}

double mean(const numbers& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) /
         static_cast<double>(values.size());
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

fitted_distribution fit_constant(const numbers& sorted) {
  auto value = quantile(sorted, 0.5);
  fitted_distribution out{
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

fitted_distribution fit_gamma(const numbers& sorted) {
  auto m = mean(sorted);
  auto shape = gamma_shape(std::log(m) - mean_log(sorted));
  auto scale = m / shape;
  fitted_distribution out{"gamma", gamma_text(m, shape), 2, 0, {}};
  for (auto x : sorted)
    out.log_likelihood += gamma_log_density(x, shape, scale);
  out.below = [=](const numbers& at) {
    return gamma_below(at, shape, scale);
  };
  return out;
}

fitted_distribution make_exponential(const numbers& sorted, double offset,
                                     double m, size_t parameters) {
  fitted_distribution out{"exp",
                          "exp(offset=" + value_text(offset) +
                            ",mean=" + value_text(m) + ")",
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
fitted_distribution fit_exponential(const numbers& sorted) {
  auto n = static_cast<double>(sorted.size());
  auto least = sorted.front();
  auto above = mean(sorted) - least;
  if (least * n < 4 * above)
    return make_exponential(sorted, 0, mean(sorted), 1);
  auto m = std::max(above * n / (n - 1), 1e-12);
  return make_exponential(sorted, std::max(0.0, least - m / n), m, 2);
}

std::optional<fitted_distribution> fit_pareto(const numbers& sorted) {
  auto n = static_cast<double>(sorted.size());
  auto least = sorted.front();
  auto spread = mean_log(sorted) - std::log(least);
  auto alpha = (n - 2) / (n * spread);
  if (!(alpha > 1) || !std::isfinite(alpha))
    return std::nullopt; // It would have no mean.
  fitted_distribution out{"pareto",
                          "pareto(alpha=" + value_text(alpha) + ",mean=" +
                            value_text(least * alpha / (alpha - 1)) + ")",
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

std::optional<fitted_distribution> fit_transient(const numbers& sorted) {
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
  fitted_distribution out{
    "transient",
    "transient(base=" + gamma_text(best.mean, best.shape) +
      ",p=" + value_text(best.p) + ",factor=" + value_text(best.factor) + ")",
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

} // namespace

std::vector<fitted_distribution> fit_families(const numbers& sorted) {
  std::vector<fitted_distribution> out{fit_constant(sorted)};
  if (is_constant(sorted))
    return out;
  out.push_back(fit_gamma(sorted));
  out.push_back(fit_exponential(sorted));
  for (const auto& one : {fit_pareto(sorted), fit_transient(sorted)})
    if (one)
      out.push_back(*one);
  return out;
}

double slack(double x) {
  return clock_error + relative_error * x;
}

double mean_log(const numbers& values) {
  double sum = 0;
  for (auto x : values)
    sum += std::log(x);
  return sum / static_cast<double>(values.size());
}

double quantile(const numbers& sorted, double p) {
  auto at = p * static_cast<double>(sorted.size() - 1);
  auto below = static_cast<size_t>(at);
  auto above = std::min(below + 1, sorted.size() - 1);
  auto part = at - static_cast<double>(below);
  return sorted[below] + part * (sorted[above] - sorted[below]);
}

std::string value_text(double x) {
  char out[32];
  std::snprintf(out, sizeof out, "%.5g", x);
  return out;
}

} // namespace troupe::app
