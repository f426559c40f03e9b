#include "apps/checkpoint/checkpoint.hpp"

#include "actors/recording/progress.hpp"
#include "actors/recording/run_statistics.hpp"
#include "config/commands/verb.hpp"
#include "config/text/text.hpp"
#include "messages/run_record.hpp"
#include "models/storage/best_weights.hpp"

#include <sys/stat.h>

#include <array>
#include <cstdio>
#include <ctime>
#include <span>

namespace troupe::app {

namespace {

namespace fs = std::filesystem;

const config::parameter place{"path", "PATH",
                              "a run directory, its folder of checkpoints or "
                              "one checkpoint",
                              config::file_path()};

const config::parameter weights{
  "path", "PATH", "the same, or a safetensors file", config::file_path()};

const std::array<config::verb, 4> checkpoint_verbs{{
  {"checkpoint list",
   "list shows the checkpoints of a run: step, when it was written, size, and "
   "the score if there is one.",
   {place}},
  {"checkpoint show",
   "show says what the newest checkpoint is: the run, its settings, how far it "
   "is.",
   {place}},
  {"checkpoint verify",
   "verify reads every byte of all checkpoints, of best.safetensors and of the "
   "workers' error feedback and compares with the checksums. Exit status 1 if "
   "something is damaged.",
   {weights}},
  {"checkpoint export",
   "export writes the weights of the newest valid checkpoint to one file, with "
   "the keys of the network's state dict: safetensors, or pt, which torch.load "
   "reads.",
   {weights},
   false,
   {{"format", "safetensors|pt", "which of the two",
     config::one_of_words({"safetensors", "pt"})},
    {"out",
     "FILE",
     "where they go; not given: NETWORK-step-N in this folder",
     config::file_path(),
     {},
     true},
    {"best", "", "take best.safetensors instead of a checkpoint",
     config::any_text()}}},
}};

void require_checkpoints(const weights_place& at, const std::string& path) {
  if (at.checkpoints.empty())
    throw run_error(path + ": holds no checkpoint");
}

/// The time of the file's last change, in the machine's time zone.
std::string time_of_file(const fs::path& path) {
  struct stat about {};
  if (::stat(path.c_str(), &about) != 0)
    return "?";
  std::tm local{};
  ::localtime_r(&about.st_mtime, &local);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", &local);
  return text;
}

void say_row(const char* title, const std::string& text) {
  std::printf("%-14s %s\n", title, text.c_str());
}

uint64_t bytes_of(const proto::Manifest& manifest) {
  uint64_t out = 0;
  for (const auto& file : manifest.files())
    out += file.size();
  return out;
}

/// Prints a line for one checkpoint. If its manifest is damaged, the line says
/// that instead.
void list_one(const models::checkpoint_entry& one,
              const std::map<uint64_t, config::metrics>& scores) try {
  auto manifest = models::read_manifest(one.path);
  auto score = scores.find(one.step);
  std::printf("%-14s %s  %10s  %s\n", one.path.filename().c_str(),
              time_of_file(one.path).c_str(),
              config::size_text(bytes_of(manifest)).c_str(),
              score == scores.end()
                ? "no score"
                : recording::metrics_text(score->second).c_str());
} catch (const run_error& why) {
  std::printf("%-14s %s\n", one.path.filename().c_str(), why.what());
}

void list_best(const fs::path& run) {
  auto path = run / models::best_weights_file;
  std::error_code error;
  if (run.empty() || !fs::exists(path, error))
    return;
  auto best = models::read_best_score(run);
  std::printf("%-14s %s  %10s  %s, step %s\n", "best",
              time_of_file(path).c_str(),
              config::size_text(fs::file_size(path, error)).c_str(),
              recording::metrics_text(best.metrics).c_str(),
              std::to_string(best.step).c_str());
}

void show_run(const proto::Manifest& manifest,
              const config::run_description& run) {
  say_row("run", config::shown(run.run_id) + ", life " +
                   std::to_string(manifest.ps_incarnation()) + ", troupe " +
                   config::shown(manifest.troupe_version()));
  say_row("step", std::to_string(manifest.step()) + ", " +
                    config::count(manifest.ledger().epochs_completed(),
                                  "complete epoch"));
  say_row("network", config::shown(manifest.network()));
  say_row("data set", config::shown(manifest.dataset()) + ", " +
                        std::to_string(manifest.classes()) + " classes");
  say_row("policy", config::shown(manifest.policy().name()) + ", " +
                      config::count(manifest.policy().workers(), "worker"));
  say_row("optimizer", config::shown(manifest.optimizer().name()) + ", " +
                         config::count(manifest.optimizer().steps(), "step"));
  if (!run.init.file.empty())
    say_row("began with",
            config::shown(run.init.file) + ", SHA-256 " + run.init.sha256);
  for (const auto& what : run.changes)
    say_row("changed", config::shown(what.key) + " from " +
                         config::or_not_set(what.before) + " to " +
                         config::or_not_set(what.after) + " at step " +
                         std::to_string(what.step));
}

void show_counts(const proto::Manifest& manifest) {
  const auto& counters = manifest.counters();
  say_row("gradients",
          std::to_string(counters.gradients_applied()) + " applied, " +
            std::to_string(counters.gradients_dropped()) + " dropped, " +
            std::to_string(counters.gradients_refused()) + " refused");
  say_row("samples", std::to_string(counters.samples_applied()) + " applied, " +
                       std::to_string(counters.samples_dropped()) + " dropped");
  if (auto best = recording::best_in(counters))
    say_row("best so far", recording::metric_text(best->found) + ", step " +
                             std::to_string(best->step));
  for (const auto& file : manifest.files())
    say_row("file",
            config::shown(file.name()) + ", " + config::size_text(file.size()));
}

} // namespace

void list_checkpoints(const weights_place& at) {
  auto scores = scores_of(at.run);
  for (const auto& one : at.checkpoints)
    list_one(one, scores);
  list_best(at.run);
  if (at.checkpoints.empty())
    return;
  auto left = models::list_abandoned(at.checkpoints.front().path.parent_path());
  for (const auto& path : left)
    std::printf("%s: set aside, since the run went on from an older one\n",
                path.filename().c_str());
}

void show_checkpoint(const weights_place& at) {
  const auto& newest = at.checkpoints.back();
  auto manifest = models::read_manifest(newest.path);
  say_row("checkpoint", newest.path.string());
  show_run(manifest, description_of(manifest));
  show_counts(manifest);
  auto scores = scores_of(at.run);
  if (auto score = scores.find(newest.step); score != scores.end())
    say_row("score", recording::metrics_text(score->second));
}

exit_status checkpoint_verb(const std::vector<std::string>& arguments) {
  auto [verb, what, help] =
    config::choose_verb("checkpoint", checkpoint_verbs, arguments);
  if (verb == nullptr) {
    std::fputs(help.c_str(), stdout);
    return exit_status::done;
  }
  const auto& path = what.operands.front();
  auto at = find_weights(path);
  if (verb->name == "checkpoint verify") {
    verify_checkpoints(at);
    return exit_status::done;
  }
  if (verb->name == "checkpoint export") {
    auto format = what.flags.text("format") == "pt"
                    ? weights_format::torch
                    : weights_format::safetensors;
    fs::path out = what.flags.has("out") ? what.flags.text("out") : "";
    out = export_weights(at, what.flags.has("best"), format, out);
    say_row("written", out.string());
    return exit_status::done;
  }
  require_checkpoints(at, path);
  if (verb->name == "checkpoint list")
    list_checkpoints(at);
  else
    show_checkpoint(at);
  return exit_status::done;
}

} // namespace troupe::app
