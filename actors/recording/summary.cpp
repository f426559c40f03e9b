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

ordered_json first_failure_of(const summary& result) {
  return result.first_failure
           ? ordered_json::parse(to_json(*result.first_failure))
           : ordered_json(nullptr);
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

ordered_json final_value(const summary& result, const char* name) {
  if (!result.final_metrics)
    return nullptr;
  return value_or_null(config::value_of(*result.final_metrics, name));
}

ordered_json final_metrics(const summary& results) {
  if (!results.final_metrics)
    return nullptr;
  auto result = ordered_json::object();
  for (const auto& one : *results.final_metrics)
    result[one.name] = one.value;
  return result;
}

ordered_json best_accuracy(const summary& result) {
  auto by_accuracy =
    result.best_by && result.best_by->name == native_metrics::accuracy;
  return by_accuracy ? value_or_null(result.best_value) : nullptr;
}

ordered_json best_metric(const summary& result) {
  if (!result.best_by || !result.best_value)
    return nullptr;
  return {{"name", result.best_by->name},
          {"rule", result.best_by->highest ? "max" : "min"},
          {"value", *result.best_value},
          {"step", value_or_null(result.best_step)}};
}

} // namespace

std::string to_json(const summary& results) {
  ordered_json result{
    {"status", results.status},
    {"policy", results.policy},
    {"steps", results.steps},
    {"epochs", results.epochs},
    {"workers", results.workers},
    {"shards", results.shards},
    {"samples_applied", results.samples_applied},
    {"samples_dropped", results.samples_dropped},
    {"gradients_applied", results.gradients_applied},
    {"gradients_dropped", results.gradients_dropped},
    {"gradients_refused", results.gradients_refused},
    {"samples_left_out", results.samples_left_out},
    {"samples_partly_applied", results.samples_partly_applied},
    {"samples_skipped", results.samples_skipped},
    {"fp16_overflows", results.fp16_overflows},
    {"wall_seconds", results.wall_seconds},
    {"virtual_seconds", value_or_null(results.virtual_seconds)},
    {"samples_per_second", results.samples_per_second},
    {"final_loss", final_value(results, native_metrics::loss)},
    {"final_accuracy", final_value(results, native_metrics::accuracy)},
    {"final_accuracy_top5",
     final_value(results, native_metrics::accuracy_top5)},
    {"final_metrics", final_metrics(results)},
    {"best_accuracy", best_accuracy(results)},
    {"best_metric", best_metric(results)},
    {"best_step", value_or_null(results.best_step)},
    {"best_weights", value_or_null(results.best_weights)},
    {"staleness",
     {{"mean", results.staleness.mean},
      {"max", results.staleness.max},
      {"histogram", results.staleness.histogram}}},
    {"wait_share", results.wait_share},
    {"data_wait_share", results.data_wait_share},
    {"mode", results.mode},
    {"local_steps", results.local_steps},
    {"bubble_share", value_or_null(results.bubble_share)},
    {"contexts_left", value_or_null(results.contexts_left)},
    {"accepted_share", shares(results.accepted_share)},
    {"weights_sha256", value_or_null(results.weights_sha256)},
    {"state_sha256", value_or_null(results.state_sha256)},
    {"seed", results.seed},
    {"sharding", results.sharding},
    {"transport", results.transport},
    {"bytes_sent_per_step", value_or_null(results.bytes_sent_per_step)},
    {"bytes_received_per_step", value_or_null(results.bytes_received_per_step)},
    {"changes", list_of(results.changes)},
    {"slowness", shares(results.slowness)},
    {"first_failure", first_failure_of(results)},
    {"troupe_version", results.troupe_version},
  };
  return result.dump(2, ' ', false, ordered_json::error_handler_t::replace) +
         "\n";
}

void write_summary(const std::filesystem::path& path, const summary& result) {
  models::replace_file(path, to_json(result));
}

} // namespace troupe::recording
