#include "actors/recording/kept_scores.hpp"

#include <nlohmann/json.hpp>

#include <cmath>
#include <fstream>
#include <utility>

namespace troupe::recording {

kept_scores::kept_scores(const std::filesystem::path& folder,
                         const start_record& run,
                         std::optional<config::metric_order> order)
  : order_(std::move(order)) {
  using mode = metrics_log::mode;
  auto path = folder / file;
  auto goes_on = load(path, run.run_id);
  log_.emplace(path,
               std::filesystem::exists(path) ? mode::resume : mode::fresh);
  if (!goes_on)
    log_->started(run);
}

bool kept_scores::load(const std::filesystem::path& path,
                       std::string_view run_id) {
  auto ours = false;
  std::ifstream in{path};
  for (std::string text; std::getline(in, text);) {
    auto line = nlohmann::json::parse(text, nullptr, false);
    if (!line.is_object()) // Its end may be missing.
      continue;
    try {
      auto kind = line.value("kind", "");
      if (kind == "started")
        ours = line.value("run_id", "") == run_id;
      if (!ours || kind != "evaluation")
        continue;
      last_ = line.at("step").get<uint64_t>();
      if (auto best = line.find("best"); best != line.end())
        best_ = {best->at("step").get<uint64_t>(),
                 best->at("metric").get<std::string>(),
                 best->at("value").get<double>()};
    } catch (const nlohmann::json::exception&) {
      continue; // Somebody has changed it.
    }
  }
  return ours;
}

void kept_scores::add(evaluation_record found) {
  auto order = order_ ? order_ : config::usual_order(found.metrics);
  auto value = order ? config::value_of(found.metrics, order->name)
                     : std::optional<double>{};
  if (value && !std::isnan(*value) &&
      (!best_ || order->is_better(*value, best_->value)))
    best_ = {found.step, order->name, *value};
  last_ = found.step;
  found.best = best_;
  log_->evaluation(found);
}

} // namespace troupe::recording
