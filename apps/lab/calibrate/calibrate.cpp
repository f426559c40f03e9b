#include "apps/lab/calibrate/calibrate.hpp"

#include "apps/lab/calibrate/families.hpp"
#include "apps/lab/calibrate/fit.hpp"
#include "apps/lab/calibrate/recorded.hpp"
#include "config/commands/verb.hpp"
#include "config/run_folder/own_file.hpp"
#include "config/text/text.hpp"
#include "models/storage/durable_file.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <optional>

namespace troupe::app {

namespace {

using nlohmann::ordered_json;

const config::verb verb{
  "calibrate",
  "Fits the distributions of --compute-time to the times that the gradients of "
  "recorded runs took, and prints the best as a value to use. Several event "
  "logs "
  "count as one run.",
  {{"log", "LOG",
    "an event log: tape-<life>.pb, which a run with --tape leaves in its "
    "directory",
    config::file_path()}},
  true,
  {{"json",
    "FILE",
    "also write all figures to a file",
    config::file_path(),
    {},
    true}}};

/// The most workers that the table lists one by one.
constexpr size_t most_shown = 32;

struct calibration {
  std::vector<std::filesystem::path> event_logs;
  std::optional<std::string> json;
};

std::string names_of(const calibration& model) {
  return model.event_logs.size() == 1
           ? model.event_logs.front().string()
           : std::to_string(model.event_logs.size()) + " event logs";
}

void require_enough(const calibration& model, const recorded_times& found) {
  auto count = found.gradients();
  if (count < fewest_times)
    throw run_error(names_of(model) + ": " + std::to_string(count) +
                    " gradients arrived; a fit takes at least " +
                    std::to_string(fewest_times));
  for (const auto& [worker, times] : found.compute)
    for (auto x : times)
      if (!(x > 0) || !std::isfinite(x))
        throw run_error(names_of(model) + ": a gradient of worker " +
                        std::to_string(worker) + " took " + std::to_string(x) +
                        " s; only times above 0 can be fitted");
}

/// The distance that chance alone exceeds in one case of twenty (Kolmogorov);
/// here even more rarely, because the parameters were fitted to the same times.
double chance(uint64_t count) {
  return 1.358 / std::sqrt(static_cast<double>(count));
}

struct worker_line {
  uint32_t worker;
  size_t gradients;
  double median;
  double mean;
  double p95;
};

std::vector<worker_line> lines_of(const recorded_times& found) {
  std::vector<worker_line> out;
  for (auto [worker, times] : found.compute) {
    std::sort(times.begin(), times.end());
    double sum = 0;
    for (auto x : times)
      sum += x;
    out.push_back({worker, times.size(), quantile(times, 0.5),
                   sum / static_cast<double>(times.size()),
                   quantile(times, 0.95)});
  }
  return out;
}

/// The median time of a gradient's transfer and that of the weights, in
/// seconds.
std::optional<double> travel_of(const recorded_times& found) {
  if (found.travel.size() < fewest_times)
    return std::nullopt;
  auto times = found.travel;
  std::sort(times.begin(), times.end());
  return quantile(times, 0.5);
}

void print(const recorded_times& found, const std::vector<candidate>& all) {
  std::printf("worker  gradients  median s    mean s     95th percentile s\n");
  auto lines = lines_of(found);
  for (size_t i = 0; i < lines.size() && i < most_shown; ++i)
    std::printf("%6u  %9zu  %-10.5g  %-9.5g  %-.5g\n", lines[i].worker,
                lines[i].gradients, lines[i].median, lines[i].mean,
                lines[i].p95);
  if (lines.size() > most_shown)
    std::printf("... and %zu more\n", lines.size() - most_shown);
  std::printf("\ndistance  BIC         compute-time\n");
  for (const auto& one : all)
    std::printf("%8.4f  %-10.6g  %s\n", one.distance, one.criterion,
                one.compute_time.c_str());
  const auto& best = all.front();
  std::printf("\nbest: --compute-time \"%s\"\n", best.compute_time.c_str());
  auto limit = chance(found.gradients());
  if (best.distance > limit)
    std::printf("but these times do not follow it: the distance is %.3f, and "
                "chance explains %.3f\n",
                best.distance, limit);
  if (found.cancelled > 0)
    std::printf(
      "%llu computations were cancelled; their times, which were "
      "long ones, are not in the event log: record with --late drop\n",
      static_cast<unsigned long long>(found.cancelled));
  if (auto travel = travel_of(found))
    std::printf("links: a gradient and the weights that answer it travel %.3g "
                "s together (median)\n",
                *travel);
  std::printf("link-latency and link-rate are not fitted: tensors of one size "
              "do not tell them apart\n");
}

std::string to_json(const calibration& model, const recorded_times& found,
                    const std::vector<candidate>& all) {
  ordered_json out;
  for (const auto& event_log : model.event_logs)
    out["tapes"].push_back(event_log.string());
  out["gradients"] = found.gradients();
  out["cancelled"] = found.cancelled;
  for (const auto& line : lines_of(found))
    out["workers"].push_back({{"worker", line.worker},
                              {"gradients", line.gradients},
                              {"median_seconds", line.median},
                              {"mean_seconds", line.mean},
                              {"p95_seconds", line.p95}});
  for (const auto& one : all) {
    auto& next = out["candidates"].emplace_back();
    next["compute_time"] = one.compute_time;
    next["family"] = one.family;
    next["slow_workers"] = one.slow_workers;
    next["parameters"] = one.parameters;
    next["distance"] = one.distance;
    next["bic"] = one.criterion; // Infinite ones become null.
  }
  out["best"] = all.front().compute_time;
  out["chance_distance"] = chance(found.gradients());
  auto travel = travel_of(found);
  out["travel_seconds"] = travel ? ordered_json(*travel) : ordered_json();
  out["link_latency"] = nullptr; // Not fitted.
  out["link_rate"] = nullptr;
  return out.dump(2) + "\n";
}

} // namespace

exit_status calibrate(const std::vector<std::string>& arguments) {
  auto typed = config::read_verb(verb, arguments);
  if (!typed) {
    std::fputs(config::help_of({&verb, 1}).c_str(), stdout);
    return exit_status::done;
  }
  calibration what{{typed->operands.begin(), typed->operands.end()}, {}};
  if (typed->flags.has("json"))
    what.json = typed->flags.text("json");
  if (what.json)
    config::require_own_file("--json", *what.json, "{\n  \"tapes\"");
  auto found = read_times(what.event_logs);
  require_enough(what, found);
  auto all = fit_compute_times(found.compute);
  print(found, all);
  if (what.json)
    models::replace_file(*what.json, to_json(what, found, all));
  return exit_status::done;
}

} // namespace troupe::app
