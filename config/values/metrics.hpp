#pragma once
// Metrics: what an evaluator finds out about a version of the weights, as
// numbers with names, and how settings speak of them (`--target f1>=0.9`,
// `--best-by min(loss)`). Plain values.

#include "config/text/settings.hpp"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::config {

struct metric {
  std::string name;
  double value = 0;

  bool operator==(const metric&) const = default;
};

using metrics = std::vector<metric>;

/// Those of networks that Troupe computes.
namespace native_metrics {
inline constexpr const char* accuracy = "accuracy"; ///< In [0, 1].
inline constexpr const char* loss = "loss";         ///< Mean over the samples.
/// With more than five classes: in [0, 1].
inline constexpr const char* accuracy_top5 = "accuracy_top5";
/// Of gradients in fp16: the factor of the loss, and how often a batch was
/// computed again because its gradient had overflowed.
inline constexpr const char* loss_scale = "fp16/scale";
inline constexpr const char* overflows = "fp16/overflows";
} // namespace native_metrics

/// The most metrics of a score.
inline constexpr size_t most_metrics = 64;

/// A word of letters, digits and `_.-/`, 64 at most, that begins with a letter.
bool is_metric_name(std::string_view name);

/// Whether a metric is of the average of the weights (`--ema-decay`), as
/// "ema/accuracy" is.
bool is_of_average(std::string_view name);

/// Adds the metrics of the average of the same weights, under such names.
/// Leaves out those whose names would be too long, and those beyond the most of
/// a score.
void add_average(metrics& all, const metrics& of_average);

/// The value of the first metric of this name.
std::optional<double> value_of(const metrics& all, std::string_view name);

/// "accuracy, loss"
std::string names_of(const metrics& all);

/// A value that ends the run.
struct metric_target {
  std::string name;
  bool at_least = true; ///< Else: at most.
  double value = 0;

  /// Also false if the metric is not among them.
  bool is_reached(const metrics& found) const;
};

/// Reads `f1>=0.9` or `loss<=0.2`. Throws `bad_value`.
metric_target parse_target(std::string_view text);

std::string to_string(const metric_target& target);

/// Which of two scores is the better one.
struct metric_order {
  std::string name;
  bool highest = true; ///< Else: the lowest value is the best.

  /// Whether `a` is better than `b`; NaN is never better.
  bool is_better(double a, double b) const { return highest ? a > b : a < b; }

  bool operator==(const metric_order&) const = default;
};

/// Reads `max(f1)` or `min(loss)`. Throws `bad_value`.
metric_order parse_order(std::string_view text);

std::string to_string(const metric_order& order);

/// By `target` or by `target-accuracy`, of which one is given at most.
std::optional<metric_target> target_of(const training_settings& all);

/// By `best-by`, else by the target's metric; nothing if none is given.
std::optional<metric_order> order_of(const settings& all);

/// Where no order is given: the highest accuracy, else the lowest loss; nothing
/// if the score has none of them.
std::optional<metric_order> usual_order(const metrics& found);

/// The name under which the metric is found: "accuracy" for "ema/accuracy" in a
/// run that keeps an average.
std::string name_to_find(const training_settings& all, std::string name);

/// Throws `run_error` if what was found of a version, or of an average, lacks
/// the metric that ends the run, which would then never end.
void require_target(const training_settings& all, const metrics& found);

} // namespace troupe::config
