#include "apps/lab/compare/compare.hpp"

#include "actors/runtime/wall_clock.hpp"
#include "apps/lab/compare/contender.hpp"
#include "apps/lab/compare/figures.hpp"
#include "apps/lab/compare/page.hpp"
#include "apps/lab/compare/plots.hpp"
#include "apps/lab/compare/progress.hpp"
#include "apps/lab/virtual_run.hpp"
#include "config/commands/command_line.hpp"
#include "config/run_folder/train_dir.hpp"
#include "config/schema/policies.hpp"
#include "config/text/failure.hpp"
#include "config/values/metrics.hpp"
#include "models/storage/durable_file.hpp"

#include <algorithm>
#include <cstdio>
#include <set>

namespace troupe::app {

namespace {

namespace fs = std::filesystem;

/// The target accuracy when none is given.
constexpr double usual_target = 0.95;

/// Steps of N gradients between scores when not given; the time to the target
/// is known only as precisely as this.
constexpr uint64_t usual_eval_freq = 2;

/// Computations in a timeline, on average over the workers.
constexpr size_t stretches_per_worker = 20;

/// Wall seconds between two lines about a run that goes on.
constexpr double line_interval = 10;

void say(const std::string& line) {
  std::puts(line.c_str());
  std::fflush(stdout);
}

config::resolved resolve(const comparison_request& request,
                         const contender& who, uint64_t seed,
                         const fs::path& folder) {
  auto arguments = request.flags;
  arguments.insert(arguments.end(), who.flags.begin(), who.flags.end());
  arguments.insert(arguments.end(),
                   {"--simulate", "--clock", "virtual", "--seed",
                    std::to_string(seed), "--train-dir", folder.string()});
  auto call =
    config::parse_command_line(arguments, config::process_environment());
  if (call.what != config::action::run)
    throw usage_error("compare only runs: leave out --help, --version, --check "
                      "and --print-config");
  return call.config;
}

/// All policies count steps of N gradients; otherwise times could not be
/// compared.
void scale(config::resolved& settings) {
  auto& all = settings.values;
  auto scaled = [&](uint64_t steps) {
    return std::max<uint64_t>(1, steps * all.cluster.workers /
                                   config::gradients_per_step(all));
  };
  if (!settings.is_explicit("evaluation.eval-freq") ||
      !all.evaluation.eval_freq.each_epoch())
    all.evaluation.eval_freq =
      scaled(settings.is_explicit("evaluation.eval-freq")
               ? all.evaluation.eval_freq.steps
               : usual_eval_freq);
  if (all.training.max_steps)
    all.training.max_steps = scaled(*all.training.max_steps);
  // A comparison is repeated rather than resumed.
  all.checkpoint.checkpoint_freq = 1'000'000'000;
  all.checkpoint.keep = 1;
  if (!settings.is_explicit("checkpoint.keep-best"))
    all.checkpoint.keep_best = config::best_rule::nothing;
  // The table is about accuracy.
  if (!all.training.target.empty()) {
    auto target = config::parse_target(all.training.target);
    if (target.name != config::native_metrics::accuracy || !target.at_least)
      throw usage_error("--target " + all.training.target +
                        ": a comparison measures the time to an accuracy, "
                        "such as accuracy>=0.95");
    all.training.target.clear();
    all.training.target_accuracy = target.value;
  }
  auto learns = all.simulation.gradients != "none";
  if (learns && !all.training.target_accuracy)
    all.training.target_accuracy = usual_target;
}

/// None when a signal has stopped the run.
/// @param name What lines about the run begin with.
std::optional<run_figures> run_one(const contender& who,
                                   const config::resolved& settings,
                                   const std::string& name,
                                   const std::function<bool()>& interrupted) {
  std::vector<stretch> timeline;
  double timeline_end = 0;
  double reached = 0;
  wall_clock wall;
  double said = 0;
  auto limit = stretches_per_worker * settings.values.cluster.workers;
  virtual_run_options options;
  options.interrupted = [&] {
    if (wall.elapsed() - said > line_interval) {
      said = wall.elapsed();
      char text[64];
      std::snprintf(text, sizeof text, "at %.1f virtual s", reached);
      say(name + ": " + text);
    }
    return interrupted();
  };
  options.silent = true;
  options.watch = [&](const simulation::computation& one) {
    reached = one.end;
    if (timeline.size() < limit)
      timeline_end = one.end;
    if (one.begin < timeline_end)
      timeline.push_back({one.worker.value, one.begin, one.end, one.cancelled});
  };
  auto end = run_in_virtual_time(settings, options);
  const fs::path folder = settings.values.training.train_dir;
  if (end.status == static_cast<uint8_t>(exit_status::try_again))
    return std::nullopt;
  auto out =
    read_run(folder, who.label, settings.values.training.target_accuracy);
  out.failure = end.line;
  out.timeline = std::move(timeline);
  out.timeline_end = timeline_end;
  return out;
}

std::string line_of(const run_figures& run) {
  if (!run.failure.empty())
    return "failed: " + run.failure;
  char text[160];
  if (run.seconds_to_target)
    std::snprintf(text, sizeof text, "reached the target after %.1f virtual s",
                  *run.seconds_to_target);
  else
    std::snprintf(text, sizeof text, "ended after %.1f virtual s", run.seconds);
  char wall[32];
  std::snprintf(wall, sizeof wall, " (%.1f s)", run.wall_seconds);
  return std::string{text} + wall;
}

/// The folder of a run: a label may contain characters that a file name may
/// not.
std::string name_of(const contender& who, uint64_t seed) {
  auto name = who.label;
  std::ranges::replace(name, '/', '_');
  for (auto special : {':', '(', ')', ',', '='})
    std::ranges::replace(name, special, '-');
  return name + "-seed-" + std::to_string(seed);
}

fs::path open_folder(const comparison_request& request) {
  if (request.folder) {
    if (fs::exists(*request.folder) && !fs::is_empty(*request.folder))
      throw usage_error("--train-dir " + *request.folder +
                        ": is not empty; name a new folder");
    fs::create_directories(*request.folder);
    return *request.folder;
  }
  fs::create_directories("runs");
  for (int n = 1;; ++n) {
    fs::path folder = "runs/compare-" + std::to_string(n);
    if (fs::create_directory(folder))
      return folder;
  }
}

std::string command_of(const std::vector<std::string>& arguments) {
  std::string out = "trainer_node compare";
  for (const auto& one : arguments)
    out += one.find_first_of(" ()*") == std::string::npos ? " " + one
                                                          : " \"" + one + "\"";
  return out;
}

/// Makes the runs one after another, until a signal comes.
comparison run_all(const comparison_request& request, const fs::path& folder,
                   const std::function<bool()>& interrupted) {
  comparison all;
  all.planned = request.contenders.size() * request.seeds;
  auto stopped = false;
  auto asked = [&] {
    auto now = interrupted && interrupted();
    stopped = stopped || now;
    return now;
  };
  size_t number = 0;
  for (const auto& who : request.contenders)
    for (uint64_t seed = 1; seed <= request.seeds; ++seed) {
      auto what = resolve(request, who, seed, folder / name_of(who, seed));
      scale(what);
      all.target_accuracy = what.values.training.target_accuracy;
      auto name = "[" + std::to_string(++number) + "/" +
                  std::to_string(all.planned) + "] " + who.label + ", seed " +
                  std::to_string(seed);
      // A run that diverges is a result, too: the others continue.
      auto run = run_one(who, what, name, asked);
      if (!run)
        return all;
      auto line = name + ": " + line_of(*run);
      if (seed == 1)
        all.contenders.emplace_back().label = who.label;
      all.contenders.back().runs.push_back(std::move(*run));
      if (number < all.planned)
        line += "; about " +
                in_words(
                  seconds_left(all, request.contenders.size(), request.seeds)) +
                " left";
      say(line);
      asked();
      if (stopped)
        return all;
    }
  return all;
}

void write_report(const comparison& all, const fs::path& folder) {
  models::replace_file(folder / "report.csv", to_csv(all));
  models::replace_file(folder / "report.json", to_json(all));
  std::fputs(("\n" + to_table(all) + "\n").c_str(), stdout);
  if (can_draw()) {
    write_page(all, folder);
    say("report       " + (folder / "report.html").string());
  } else {
    say("report       " + (folder / "report.csv").string() +
        "; for the page with plots install gnuplot (Debian: gnuplot-nox)");
  }
}

} // namespace

exit_status compare(const std::vector<std::string>& arguments,
                    const std::function<bool()>& interrupted) {
  auto request = parse_comparison(arguments);
  if (request.help) {
    std::fputs(comparison_help().c_str(), stdout);
    return exit_status::done;
  }
  std::set<std::string> notes;
  for (const auto& who : request.contenders) // Before anything is written.
    for (const auto& note : resolve(request, who, 1, "").notes)
      if (notes.insert(note).second)
        say("network      " + note);
  auto folder = open_folder(request);
  auto runs = request.contenders.size() * request.seeds;
  say(std::to_string(runs) + " runs into " + folder.string() +
      ", one after another; Ctrl-C ends them with a report of those that are "
      "done");
  auto all = run_all(request, folder, interrupted);
  all.command = command_of(arguments);
  if (all.contenders.empty())
    throw failure(exit_status::try_again,
                  "stopped by a signal before a run was done; no report");
  write_report(all, folder);
  if (all.done() < all.planned)
    return exit_status::try_again;
  for (const auto& one : all.contenders)
    for (const auto& run : one.runs)
      if (!run.failure.empty())
        return exit_status::failed;
  return exit_status::done;
}

} // namespace troupe::app
