#include "config/values/metrics.hpp"

#include "config/text/failure.hpp"
#include "config/text/text.hpp"
#include "config/text/value.hpp"

#include <algorithm>

namespace troupe::config {

namespace {

constexpr size_t longest_name = 64;
constexpr std::string_view average_prefix = "ema/";

bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

std::string name_in(std::string_view text) {
  auto name = trim(text);
  if (!is_metric_name(name))
    throw bad_value("is no name of a metric: " + in_quotes(name) +
                    "; a letter comes first, then letters, digits and _.-/");
  return std::string{name};
}

} // namespace

bool is_metric_name(std::string_view name) {
  return !name.empty() && name.size() <= longest_name &&
         is_letter(name.front()) && std::ranges::all_of(name, [](char c) {
           return is_letter(c) || (c >= '0' && c <= '9') || c == '_' ||
                  c == '.' || c == '-' || c == '/';
         });
}

bool is_of_average(std::string_view name) {
  return name.starts_with(average_prefix);
}

void add_average(metrics& all, const metrics& of_average) {
  for (const auto& one : of_average) {
    auto name = std::string{average_prefix} + one.name;
    if (all.size() < most_metrics && is_metric_name(name))
      all.push_back({name, one.value});
  }
}

std::optional<double> value_of(const metrics& all, std::string_view name) {
  auto found = std::ranges::find(all, name, &metric::name);
  return found == all.end() ? std::nullopt : std::optional{found->value};
}

std::string names_of(const metrics& all) {
  std::vector<std::string> names;
  for (const auto& one : all)
    names.push_back(one.name);
  return join(names, ", ");
}

bool metric_target::is_reached(const metrics& found) const {
  auto its = value_of(found, name);
  return its && (at_least ? *its >= value : *its <= value);
}

metric_target parse_target(std::string_view text) {
  auto at = text.find_first_of("<>");
  if (at == text.npos || text.substr(at + 1, 1) != "=")
    throw bad_value("is a metric and its value, such as accuracy>=0.97 or "
                    "loss<=0.1");
  return {name_in(text.substr(0, at)), text[at] == '>',
          parse<double>(trim(text.substr(at + 2)))};
}

std::string to_string(const metric_target& target) {
  return target.name + (target.at_least ? ">=" : "<=") + print(target.value);
}

metric_order parse_order(std::string_view text) {
  text = trim(text);
  auto highest = text.starts_with("max(");
  if (!(highest || text.starts_with("min(")) || !text.ends_with(")"))
    throw bad_value("is max(METRIC) or min(METRIC), such as min(loss)");
  return {name_in(text.substr(4, text.size() - 5)), highest};
}

std::string to_string(const metric_order& order) {
  return (order.highest ? "max(" : "min(") + order.name + ")";
}

std::optional<metric_target> target_of(const training_settings& all) {
  if (!all.target.empty())
    return parse_target(all.target);
  if (all.target_accuracy)
    return metric_target{native_metrics::accuracy, true, *all.target_accuracy};
  return std::nullopt;
}

std::optional<metric_order> order_of(const settings& all) {
  if (!all.checkpoint.best_by.empty())
    return parse_order(all.checkpoint.best_by);
  if (auto target = target_of(all.training))
    return metric_order{target->name, target->at_least};
  return std::nullopt;
}

std::optional<metric_order> usual_order(const metrics& found) {
  for (const auto& usual : {metric_order{native_metrics::accuracy, true},
                            metric_order{native_metrics::loss, false}})
    if (value_of(found, usual.name))
      return usual;
  return std::nullopt;
}

std::string name_to_find(const training_settings& all, std::string name) {
  if (all.ema_decay > 0 && is_of_average(name))
    name.erase(0, average_prefix.size());
  return name;
}

void require_target(const training_settings& all, const metrics& found) {
  auto target = target_of(all);
  if (target && !value_of(found, name_to_find(all, target->name)))
    throw run_error("--target " + to_string(*target) + ": the score has no " +
                    target->name + ", only " + names_of(found) +
                    ", so the run would not end");
}

} // namespace troupe::config
