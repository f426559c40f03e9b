#include "actors/recording/summary.hpp"

#include "models/storage/durable_file.hpp"

#include <nlohmann/json.hpp>

namespace troupe::recording {

namespace {

namespace native_metrics = config::native_metrics;
using nlohmann::ordered_json;

template <class T>
ordered_json value_or_null(const std::optional<T>& x) {
  return x ? ordered_json(*x) : ordered_json(nullptr);
}

ordered_json shares(const std::vector<std::optional<double>>& xs) {
  auto result = ordered_json::array();
  for (const auto& x : xs)
    result.push_back(value_or_null(x));
  return result;
}

ordered_json list_of(const std::vector<config::change>& changes) {
  auto result = ordered_json::array();
  for (const auto& what : changes)
    result.push_back({{"step", what.step},
                      {"key", what.key},
                      {"before", what.before},
                      {"after", what.after}});
  return result;
}

ordered_json final_value(const summary& what, const char* name) {
  if (!what.final_metrics)
    return nullptr;
  return value_or_null(config::value_of(*what.final_metrics, name));
}

ordered_json final_metrics(const summary& what) {
  if (!what.final_metrics)
    return nullptr;
  auto result = ordered_json::object();
  for (const auto& one : *what.final_metrics)
    result[one.name] = one.value;
  return result;
}

ordered_json best_accuracy(const summary& what) {
  auto by_accuracy =
    what.best_by && what.best_by->name == native_metrics::accuracy;
  return by_accuracy ? value_or_null(what.best_value) : nullptr;
}

ordered_json best_metric(const summary& what) {
  if (!what.best_by || !what.best_value)
    return nullptr;
  return {{"name", what.best_by->name},
          {"rule", what.best_by->highest ? "max" : "min"},
          {"value", *what.best_value},
          {"step", value_or_null(what.best_step)}};
}

} // namespace

std::string to_json(const summary& what) {
  ordered_json result{
    {"status", what.status},
    {"policy", what.policy},
    {"steps", what.steps},
    {"epochs", what.epochs},
    {"workers", what.workers},
    {"shards", what.shards},
    {"samples_applied", what.samples_applied},
    {"samples_dropped", what.samples_dropped},
    {"gradients_applied", what.gradients_applied},
    {"gradients_dropped", what.gradients_dropped},
    {"gradients_refused", what.gradients_refused},
    {"samples_left_out", what.samples_left_out},
    {"samples_skipped", what.samples_skipped},
    {"wall_seconds", what.wall_seconds},
    {"virtual_seconds", value_or_null(what.virtual_seconds)},
    {"samples_per_second", what.samples_per_second},
    {"final_loss", final_value(what, native_metrics::loss)},
    {"final_accuracy", final_value(what, native_metrics::accuracy)},
    {"final_accuracy_top5", final_value(what, native_metrics::accuracy_top5)},
    {"final_metrics", final_metrics(what)},
    {"best_accuracy", best_accuracy(what)},
    {"best_metric", best_metric(what)},
    {"best_step", value_or_null(what.best_step)},
    {"best_weights", value_or_null(what.best_weights)},
    {"staleness",
     {{"mean", what.staleness.mean},
      {"max", what.staleness.max},
      {"histogram", what.staleness.histogram}}},
    {"wait_share", what.wait_share},
    {"data_wait_share", what.data_wait_share},
    {"mode", what.mode},
    {"bubble_share", value_or_null(what.bubble_share)},
    {"contexts_left", value_or_null(what.contexts_left)},
    {"accepted_share", shares(what.accepted_share)},
    {"weights_sha256", value_or_null(what.weights_sha256)},
    {"state_sha256", value_or_null(what.state_sha256)},
    {"seed", what.seed},
    {"sharding", what.sharding},
    {"transport", what.transport},
    {"bytes_sent_per_step", value_or_null(what.bytes_sent_per_step)},
    {"bytes_received_per_step", value_or_null(what.bytes_received_per_step)},
    {"changes", list_of(what.changes)},
    {"troupe_version", what.troupe_version},
  };
  return result.dump(2, ' ', false, ordered_json::error_handler_t::replace) +
         "\n";
}

void write_summary(const std::filesystem::path& path, const summary& what) {
  models::replace_file(path, to_json(what));
}

} // namespace troupe::recording
