#include "config/run_folder/train_dir.hpp"

#include "config/run_folder/own_file.hpp"
#include "config/text/failure.hpp"
#include "config/text/input_file.hpp"
#include "config/text/text.hpp"
#include "config/values/script.hpp"

#include <algorithm>
#include <charconv>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace troupe::config {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view run_files[] = {"config.ini", "metrics.jsonl",
                                          "summary.json", "best.safetensors"};
/// Files beside them, which alone do not make a run.
constexpr std::string_view other_files[] = {"lives", "scores.jsonl"};
constexpr std::string_view checkpoint_files[] = {
  "manifest.pb", "model.safetensors", "optimizer.safetensors"};
/// What workers have saved with each checkpoint.
constexpr const char* folders_of_workers[] = {"residuals", "inner-optimizer"};
constexpr std::string_view temporary = ".tmp";

/// Whether this is our file of events; those of other programs end differently.
bool is_event_file(std::string_view name) {
  return name.starts_with("events.out.tfevents.") && name.ends_with(".troupe");
}

/// tape-1.pb and its set-aside forms.
bool is_event_log(std::string_view name) {
  return name.ends_with(".pb") &&
         (name.starts_with("tape-") ||
          (name.starts_with("abandoned-") && name.find("tape-") != name.npos));
}

/// Best weights that were set aside.
bool is_old_best(std::string_view name) {
  return (name.starts_with("abandoned-") || name.starts_with("damaged-")) &&
         name.find("-best.safetensors") != name.npos;
}

/// `name` or its temporary form.
template <class Names>
bool is_named_in(const Names& names, std::string_view name) {
  if (name.ends_with(temporary))
    name.remove_suffix(temporary.size());
  return is_among(names, name);
}

/// step-00000100 and its temporary and set-aside forms.
bool is_checkpoint(std::string_view name) {
  constexpr std::string_view stem = "step-";
  auto at = name.find(stem);
  if (at == std::string_view::npos)
    return false;
  auto digits = name.substr(at + stem.size());
  auto end = std::min(digits.find_first_not_of("0123456789"), digits.size());
  return end >= 8;
}

template <class Wanted>
std::vector<fs::path> children(const fs::path& folder, Wanted wanted) {
  std::vector<fs::path> result;
  for (const auto& entry : fs::directory_iterator{folder})
    if (wanted(entry, entry.path().filename().string()))
      result.push_back(entry.path());
  return result;
}

template <class Wanted>
void remove_files(const fs::path& folder, Wanted wanted) {
  auto is_wanted = [&](const fs::directory_entry& entry,
                       std::string_view name) {
    return (entry.is_regular_file() || entry.is_symlink()) && wanted(name);
  };
  for (const auto& file : children(folder, is_wanted))
    fs::remove(file);
}

void remove_if_empty(const fs::path& folder) {
  if (fs::is_empty(folder))
    fs::remove(folder);
}

bool is_checkpoint_file(std::string_view name) {
  return is_named_in(checkpoint_files, name);
}

bool is_description(std::string_view name) {
  return name.ends_with(".safetensors");
}

/// The error feedback of workers.
bool is_of_worker(std::string_view name) {
  return name.starts_with("worker-");
}

/// Removes `wanted` files in the folders of steps, and folders that become
/// empty.
template <class Wanted>
void remove_steps(const fs::path& folder, Wanted wanted) {
  auto is_step = [](const fs::directory_entry& entry, std::string_view name) {
    return !entry.is_symlink() && entry.is_directory() && is_checkpoint(name);
  };
  for (const auto& step : children(folder, is_step)) {
    remove_files(step, wanted);
    remove_if_empty(step);
  }
  if (!fs::is_symlink(folder))
    remove_if_empty(folder);
}

/// <n> of the highest <stem><n> in `runs`, 0 when there is none.
uint64_t highest(const fs::path& runs, const std::string& stem) {
  uint64_t result = 0;
  for (const auto& entry : fs::directory_iterator{runs}) {
    auto name = entry.path().filename().string();
    if (!name.starts_with(stem))
      continue;
    uint64_t n = 0;
    auto last = name.data() + name.size();
    auto [end, error] = std::from_chars(name.data() + stem.size(), last, n);
    if (error == std::errc{} && end == last && n < 1'000'000'000)
      result = std::max(result, n);
  }
  return result;
}

/// Of two processes that start at once only one makes a folder: the other
/// takes the next number.
fs::path make_next(const fs::path& runs, const std::string& name) {
  fs::create_directories(runs);
  auto stem = name + "-";
  for (auto n = highest(runs, stem) + 1;; ++n)
    if (auto path = runs / (stem + std::to_string(n));
        fs::create_directory(path))
      return path;
}

/// The beginnings of those files of a run whose names other programs may use,
/// too. A crash of the machine may have left zeros in them.
constexpr std::pair<std::string_view, std::string_view> beginnings[] = {
  {"config.ini", "# The settings of this run, resolved by trainer_node"},
  {"metrics.jsonl", "{\"kind\":"},
  {"summary.json", "{\n  \"status\":"}};

/// Throws unless these files are of a run, since a run writes to them or
/// removes them.
void require_own_files(const fs::path& folder) {
  auto refuse = [&](std::string_view name) {
    throw usage_error("train-dir " + folder.string() + ": " +
                      std::string{name} +
                      " there is not of a run: move it away, or give another "
                      "folder");
  };
  for (const auto& [name, beginning] : beginnings) {
    auto path = folder / name;
    if (fs::is_fifo(path) || fs::is_character_file(path))
      continue; // It keeps nothing that could be lost.
    if (auto found = beginning_of(path); !found.empty() &&
                                         found.front() != '\0' &&
                                         !found.starts_with(beginning))
      refuse(name);
  }
  constexpr size_t most_of_header = 1 << 20;
  auto best = beginning_of(folder / "best.safetensors", most_of_header);
  if (!best.empty() && best.find("\"run_id\"") == best.npos)
    refuse("best.safetensors");
}

[[noreturn]] void refuse_to_replace(const fs::path& folder) {
  throw usage_error("train-dir " + folder.string() +
                    ": holds a run already: give --resume to go on with it, "
                    "--overwrite to remove it, or another folder");
}

/// The most bytes of a file of a first try, which writes little.
constexpr uint64_t most_of_first_try = 1 << 20;

/// All of a file; empty if it is not there. Nothing if it is large, or cannot
/// be read.
std::optional<std::string> small_text(const fs::path& path) try {
  if (!fs::exists(path))
    return "";
  auto out = read_text(path, most_of_first_try);
  return out.size() < most_of_first_try ? std::optional{out} : std::nullopt;
} catch (const unreadable&) {
  return std::nullopt;
}

/// Whether a line of metrics.jsonl is about a step after the beginning.
bool tells_of_steps(std::string_view lines) {
  constexpr std::string_view key = "\"step\":";
  for (auto at = lines.find(key); at != lines.npos; at = lines.find(key, at))
    if (at += key.size(); at == lines.size() || lines[at] != '0')
      return true;
  return false;
}

/// Whether the summary tells neither of a finished run nor of a step.
bool tells_of_no_result(std::string_view summary) {
  return summary.empty() ||
         (summary.find("\"steps\": 0,") != summary.npos &&
          summary.find("\"status\": \"completed\"") == summary.npos);
}

/// Whether there is no checkpoint but that of the beginning.
bool is_at_beginning(const fs::path& checkpoints) {
  constexpr std::string_view first = "step-00000000";
  if (!fs::exists(checkpoints))
    return true;
  if (fs::is_symlink(checkpoints) || !fs::is_directory(checkpoints))
    return false;
  for (const auto& entry : fs::directory_iterator{checkpoints}) {
    auto name = entry.path().filename().string();
    auto is_first = name == first && fs::exists(entry.path() / "manifest.pb");
    if (is_checkpoint(name) && !is_first &&
        name != ".tmp-" + std::string{first})
      return false;
  }
  return true;
}

/// Whether all that `remove_run` would remove is of the run with this
/// config.ini. Looks only at files whose names alone do not say so.
bool are_of_run(const fs::path& folder, std::string_view ini) {
  for (const auto* kind : folders_of_workers)
    if (fs::exists(folder / kind))
      return false;
  for (const auto& entry : fs::directory_iterator{folder}) {
    auto name = entry.path().filename().string();
    if (name == "best.safetensors" || is_old_best(name) ||
        (is_event_log(name) && ini.find("tape = true") == ini.npos))
      return false;
  }
  auto described = folder / described_folder;
  if (!fs::exists(described))
    return true;
  for (const auto& entry : fs::directory_iterator{described})
    if (auto name = entry.path().filename().string();
        is_description(name) && ini.find("/" + name) == ini.npos)
      return false;
  return true;
}

/// Whether the folder holds a run that made no update, and nothing else that
/// removing the run would take along. Files that do not say so count as work.
bool holds_no_update(const fs::path& folder) {
  for (const auto& [name, beginning] : beginnings) {
    auto text = small_text(folder / name);
    auto may_lack = name != beginnings[0].first;
    if (!text || !(text->starts_with(beginning) || (may_lack && text->empty())))
      return false;
  }
  return !tells_of_steps(*small_text(folder / "metrics.jsonl")) &&
         tells_of_no_result(*small_text(folder / "summary.json")) &&
         is_at_beginning(folder / "checkpoints") &&
         are_of_run(folder, *small_text(folder / "config.ini"));
}

/// Whether the folder holds a run.
bool check_folder(const fs::path& folder, const training_settings& training) {
  if (fs::exists(folder) && !fs::is_directory(folder))
    throw usage_error("train-dir " + folder.string() + ": is no folder");
  if (!holds_run(folder))
    return false;
  if (!training.overwrite && !training.resume && !holds_no_update(folder))
    refuse_to_replace(folder);
  require_own_files(folder);
  return true;
}

/// Checks the folder twice: while this process waited for the lock, another may
/// have made a run there.
run_directory prepare(const fs::path& folder, const training_settings& training,
                      std::shared_ptr<const run_lock> held) {
  check_folder(folder, training);
  fs::create_directories(folder);
  if (!held)
    held = run_lock::acquire(folder);
  auto holds = check_folder(folder, training);
  // Without a lock that works, another process may be about to make the first
  // update.
  if (holds && !training.overwrite && !training.resume &&
      !held->warning().empty())
    refuse_to_replace(folder);
  auto replaces = training.overwrite || !training.resume;
  return {folder, holds && !replaces, holds && replaces, std::move(held)};
}

/// A system's refusal as one line for the user.
template <class Work>
auto guarded(const char* action, const fs::path& folder, Work work) {
  try {
    return work();
  } catch (const fs::filesystem_error& error) {
    throw run_error(std::string{action} + " " + folder.string() + ": " +
                    error.code().message());
  }
}

fs::path make_in_runs(const fs::path& root, const std::string& name) {
  auto runs = root / "runs";
  return guarded("cannot make a run directory in", runs,
                 [&] { return make_next(runs, name); });
}

} // namespace

void require_resumable(const training_settings& training,
                       const fs::path& root) {
  std::error_code ignored;
  const auto& resume = training.resume;
  if (!resume || *resume == "auto" || *resume == "best")
    return;
  if (!fs::exists(root / *resume, ignored))
    throw usage_error("resume " + shown(*resume) + ": no such folder");
  if (!fs::is_directory(root / *resume, ignored))
    throw usage_error("resume " + shown(*resume) +
                      ": is a file, and --resume takes a run directory or a "
                      "checkpoint in one; --init FILE begins a run with the "
                      "weights of a file");
}

bool holds_run(const fs::path& folder) {
  return std::any_of(
           std::begin(run_files), std::end(run_files),
           [&](std::string_view name) { return fs::exists(folder / name); }) ||
         fs::exists(folder / "checkpoints");
}

std::optional<fs::path> kept_description(const fs::path& folder) {
  auto inner = folder / described_folder;
  std::error_code error;
  for (fs::directory_iterator i{inner, error}, end; !error && i != end;
       i.increment(error))
    if (is_description(i->path().filename().string()))
      return i->path();
  return std::nullopt;
}

fs::path make_run_folder(const std::string& network, const fs::path& root) {
  return make_in_runs(root, short_name(network));
}

fs::path make_score_folder(const std::string& network, const fs::path& root) {
  return make_in_runs(root, short_name(network) + "-scores");
}

void remove_run(const fs::path& folder) {
  guarded("cannot remove the run in", folder, [&] {
    if (fs::is_directory(folder / "checkpoints"))
      remove_steps(folder / "checkpoints", is_checkpoint_file);
    if (auto described = folder / described_folder;
        fs::is_directory(described) && !fs::is_symlink(described)) {
      remove_files(described, [](std::string_view name) {
        if (name.ends_with(temporary))
          name.remove_suffix(temporary.size());
        return is_description(name);
      });
      remove_if_empty(described);
    }
    for (const auto* kind : folders_of_workers)
      if (fs::is_directory(folder / kind))
        remove_steps(folder / kind, is_of_worker);
    remove_files(folder, [](std::string_view name) {
      return is_named_in(run_files, name) || is_named_in(other_files, name) ||
             is_event_file(name) || is_event_log(name) || is_old_best(name);
    });
  });
}

run_directory open_run_directory(const training_settings& training,
                                 const fs::path& root,
                                 std::shared_ptr<const run_lock> held) {
  require_resumable(training, root);
  if (training.train_dir.empty()) {
    auto made = make_run_folder(training.network, root);
    return {made, false, false, run_lock::acquire(made)};
  }
  auto folder = root / training.train_dir;
  return guarded("cannot use train-dir", folder,
                 [&] { return prepare(folder, training, std::move(held)); });
}

} // namespace troupe::config
