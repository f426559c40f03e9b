#include "apps/lab/compare/figures.hpp"

#include "config/text/failure.hpp"
#include "config/text/input_file.hpp"
#include "config/text/value.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <sstream>

namespace troupe::app {

namespace {

using nlohmann::json;
using nlohmann::ordered_json;

json read_json(const std::filesystem::path& path) try {
  return json::parse(config::read_text(path));
} catch (const json::exception&) {
  throw run_error(path.string() + ": is no JSON; was the run cut off?");
}

std::vector<scored_point> read_scores(const std::filesystem::path& path) {
  std::vector<scored_point> out;
  std::istringstream in{config::read_text(path)};
  for (std::string line; std::getline(in, line);) {
    if (line.find("\"evaluation\"") == std::string::npos)
      continue;
    auto what = json::parse(line, nullptr, false);
    if (what.is_object() && what["kind"] == "evaluation")
      out.push_back({what["time"], what["accuracy"]});
  }
  return out;
}

double least_of(const json& shares) {
  double out = 1;
  for (const auto& share : shares)
    out = std::min(out, share.is_null() ? 0 : share.get<double>());
  return out;
}

std::string in_digits(double value, int digits = 3) {
  char text[64];
  std::snprintf(text, sizeof text, "%.*f", digits, value);
  return text;
}

/// "12.34 ± 0.56"
std::string with_deviation(const spread& figures, int digits = 2) {
  return in_digits(figures.mean, digits) + " ± " +
         in_digits(figures.deviation, digits);
}

/// Columns on a terminal: continuation bytes of UTF-8 take none.
size_t width_of(const std::string& text) {
  return static_cast<size_t>(std::ranges::count_if(text, [](char c) {
    return (static_cast<unsigned char>(c) & 0xc0) != 0x80;
  }));
}

std::string aligned(const std::vector<std::vector<std::string>>& rows) {
  std::vector<size_t> widths;
  for (const auto& row : rows)
    for (size_t i = 0; i < row.size(); ++i) {
      widths.resize(std::max(widths.size(), i + 1));
      widths[i] = std::max(widths[i], width_of(row[i]));
    }
  std::string out;
  for (const auto& row : rows) {
    for (size_t i = 0; i < row.size(); ++i) {
      std::string blanks(widths[i] - width_of(row[i]), ' ');
      out += i == 0 ? row[i] + blanks : "  " + blanks + row[i];
    }
    out += '\n';
  }
  return out;
}

std::string time_to_target(const contender_figures& one) {
  if (one.reached() == 0)
    return "not reached";
  auto out = with_deviation(
    one.of([](const run_figures& x) { return x.seconds_to_target; }), 1);
  if (one.reached() < one.runs.size())
    out += " (" + std::to_string(one.reached()) + " of " +
           std::to_string(one.runs.size()) + ")";
  return out;
}

} // namespace

run_figures read_run(const std::filesystem::path& folder,
                     const std::string& label,
                     std::optional<double> target_accuracy) try {
  auto summary = read_json(folder / "summary.json");
  run_figures out;
  out.label = label;
  out.seed = summary["seed"];
  out.steps = summary["steps"];
  out.seconds = summary["virtual_seconds"];
  auto steps = std::max(1.0, static_cast<double>(out.steps));
  auto applied = summary["gradients_applied"].get<double>();
  auto dropped = summary["gradients_dropped"].get<double>();
  out.seconds_per_step = out.seconds / steps;
  out.seconds_per_n =
    out.seconds * summary["workers"].get<double>() / std::max(1.0, applied);
  out.wait_share = summary["wait_share"];
  out.staleness_mean = summary["staleness"]["mean"];
  out.staleness_max = summary["staleness"]["max"];
  out.staleness =
    summary["staleness"]["histogram"].get<std::vector<uint64_t>>();
  out.accepted_share = applied / std::max(1.0, applied + dropped);
  out.least_accepted = least_of(summary["accepted_share"]);
  if (!summary["best_accuracy"].is_null())
    out.best_accuracy = summary["best_accuracy"];
  out.wall_seconds = summary["wall_seconds"];
  out.scores = read_scores(folder / "metrics.jsonl");
  for (const auto& [time, accuracy] : out.scores)
    if (target_accuracy && accuracy >= *target_accuracy &&
        !out.seconds_to_target)
      out.seconds_to_target = time;
  return out;
} catch (const config::unreadable& why) {
  throw run_error(folder.string() + ": a file of the run cannot be read: " +
                  why.what() + "; was the run cut off?");
} catch (const json::exception&) {
  throw run_error(folder.string() +
                  ": summary.json or metrics.jsonl is not what a run writes; "
                  "remove the folder and compare again");
}

spread spread_of(const std::vector<double>& values) {
  if (values.empty())
    return {};
  auto n = static_cast<double>(values.size());
  spread out;
  for (auto x : values)
    out.mean += x / n;
  double squares = 0;
  for (auto x : values)
    squares += (x - out.mean) * (x - out.mean);
  if (values.size() > 1)
    out.deviation = std::sqrt(squares / (n - 1));
  return out;
}

size_t contender_figures::reached() const {
  return static_cast<size_t>(std::ranges::count_if(
    runs, [](const auto& run) { return run.seconds_to_target.has_value(); }));
}

size_t comparison::done() const {
  size_t out = 0;
  for (const auto& one : contenders)
    out += one.runs.size();
  return out;
}

std::string to_table(const comparison& all) {
  std::vector<std::vector<std::string>> rows{{"policy"}};
  if (all.target_accuracy)
    rows[0].push_back("s to " + config::print(*all.target_accuracy));
  for (auto head : {"steps", "s / step", "s / N gradients", "wait", "staleness",
                    "max", "accepted", "least"})
    rows[0].emplace_back(head);
  if (all.target_accuracy)
    rows[0].emplace_back("best accuracy");
  for (const auto& one : all.contenders) {
    using run = run_figures;
    auto mean = [&](auto member) {
      return one.of([&](const run& x) { return double(x.*member); });
    };
    auto& row = rows.emplace_back(1, one.label);
    if (all.target_accuracy)
      row.push_back(time_to_target(one));
    row.push_back(in_digits(mean(&run::steps).mean, 0));
    row.push_back(with_deviation(mean(&run::seconds_per_step)));
    row.push_back(with_deviation(mean(&run::seconds_per_n)));
    row.push_back(in_digits(100 * mean(&run::wait_share).mean, 1) + " %");
    row.push_back(in_digits(mean(&run::staleness_mean).mean, 2));
    row.push_back(in_digits(mean(&run::staleness_max).mean, 0));
    row.push_back(in_digits(100 * mean(&run::accepted_share).mean, 1) + " %");
    row.push_back(in_digits(100 * mean(&run::least_accepted).mean, 1) + " %");
    if (all.target_accuracy)
      row.push_back(
        in_digits(
          100 * one.of([](const run& x) { return x.best_accuracy; }).mean, 2) +
        " %");
  }
  auto out = aligned(rows);
  if (all.done() < all.planned)
    out += "stopped by a signal after " + std::to_string(all.done()) + " of " +
           std::to_string(all.planned) + " runs\n";
  return out;
}

std::string to_csv(const comparison& all) {
  std::string out =
    "policy,seed,steps,virtual_seconds,seconds_to_target,seconds_per_step,"
    "seconds_per_n_gradients,wait_share,staleness_mean,staleness_max,"
    "accepted_share,least_accepted_share,best_accuracy,wall_seconds\n";
  auto optional = [](const std::optional<double>& x) {
    return x ? config::print(*x) : "";
  };
  for (const auto& one : all.contenders)
    for (const auto& x : one.runs) {
      auto quote = x.label.find(',') != std::string::npos ? "\"" : "";
      out += quote + x.label + quote + "," + std::to_string(x.seed) + "," +
             std::to_string(x.steps);
      for (const auto& cell :
           {config::print(x.seconds), optional(x.seconds_to_target),
            config::print(x.seconds_per_step), config::print(x.seconds_per_n),
            config::print(x.wait_share), config::print(x.staleness_mean),
            config::print(x.staleness_max), config::print(x.accepted_share),
            config::print(x.least_accepted), optional(x.best_accuracy),
            config::print(x.wall_seconds)})
        out += "," + cell;
      out += '\n';
    }
  return out;
}

std::string to_json(const comparison& all) {
  auto optional = [](const std::optional<double>& x) {
    return x ? ordered_json(*x) : ordered_json(nullptr);
  };
  ordered_json out{{"command", all.command},
                   {"target_accuracy", optional(all.target_accuracy)},
                   {"runs_planned", all.planned},
                   {"runs", ordered_json::array()}};
  for (const auto& one : all.contenders)
    for (const auto& x : one.runs) {
      auto scores = ordered_json::array();
      for (const auto& [time, accuracy] : x.scores)
        scores.push_back({time, accuracy});
      out["runs"].push_back(
        {{"policy", x.label},
         {"seed", x.seed},
         {"steps", x.steps},
         {"virtual_seconds", x.seconds},
         {"seconds_to_target", optional(x.seconds_to_target)},
         {"seconds_per_step", x.seconds_per_step},
         {"seconds_per_n_gradients", x.seconds_per_n},
         {"wait_share", x.wait_share},
         {"staleness",
          {{"mean", x.staleness_mean},
           {"max", x.staleness_max},
           {"histogram", x.staleness}}},
         {"accepted_share", x.accepted_share},
         {"least_accepted_share", x.least_accepted},
         {"best_accuracy", optional(x.best_accuracy)},
         {"accuracy", std::move(scores)},
         {"wall_seconds", x.wall_seconds}});
    }
  return out.dump(1) + "\n";
}

} // namespace troupe::app
