#include "config/sources/train_dir.hpp"

#include "config/sources/own_file.hpp"
#include "config/text/failure.hpp"
#include "config/text/text.hpp"
#include "config/values/script.hpp"

#include <algorithm>
#include <charconv>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace troupe::config {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view run_files[] = {"config.ini", "metrics.jsonl",
                                          "summary.json", "best.safetensors"};
/// Beside them; they alone make no run.
constexpr std::string_view other_files[] = {"lives", "scores.jsonl"};
constexpr std::string_view checkpoint_files[] = {
  "manifest.pb", "model.safetensors", "optimizer.safetensors"};
constexpr std::string_view temporary = ".tmp";

/// Those of other programs have other ends.
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
bool is_error_feedback(std::string_view name) {
  return name.starts_with("worker-");
}

/// Removes what is `wanted` in the folders of steps, and what is empty then.
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
fs::path make_next(const fs::path& runs, const std::string& network) {
  fs::create_directories(runs);
  auto stem = network + "-";
  for (auto n = highest(runs, stem) + 1;; ++n)
    if (auto path = runs / (stem + std::to_string(n));
        fs::create_directory(path))
      return path;
}

/// With which the files begin that a run writes, and that name none of it in
/// their names. A crash of the machine may have left zeros.
constexpr std::pair<std::string_view, std::string_view> beginnings[] = {
  {"config.ini", "# The settings of this run, resolved by trainer_node"},
  {"metrics.jsonl", "{\"kind\":"},
  {"summary.json", "{\n  \"status\":"}};

/// A run writes to these files, or removes them.
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

/// Whether the folder holds a run.
bool check_folder(const fs::path& folder, const training_settings& training) {
  if (fs::exists(folder) && !fs::is_directory(folder))
    throw usage_error("train-dir " + folder.string() + ": is no folder");
  if (!holds_run(folder))
    return false;
  if (!training.overwrite && !training.resume)
    throw usage_error("train-dir " + folder.string() +
                      ": holds a run already: give --resume to go on with "
                      "it, --overwrite to remove it, or another folder");
  require_own_files(folder);
  return true;
}

/// Whoever waited for the lock may find a run that was not there before.
run_directory prepare(const fs::path& folder, const training_settings& training,
                      std::shared_ptr<const run_lock> held) {
  check_folder(folder, training);
  fs::create_directories(folder);
  if (!held)
    held = run_lock::take(folder);
  auto holds = check_folder(folder, training);
  return {folder, holds && !training.overwrite, holds && training.overwrite,
          std::move(held)};
}

void check_resume(const training_settings& training, const fs::path& root) {
  std::error_code ignored;
  if (training.resume && *training.resume != "auto" &&
      *training.resume != "best" &&
      !fs::exists(root / *training.resume, ignored))
    throw usage_error("resume " + *training.resume + ": no such folder");
}

/// A system's refusal as one line for the user.
template <class Work>
auto guarded(const char* what, const fs::path& folder, Work work) {
  try {
    return work();
  } catch (const fs::filesystem_error& error) {
    throw run_error(std::string{what} + " " + folder.string() + ": " +
                    error.code().message());
  }
}

} // namespace

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
    if (fs::is_directory(folder / "residuals"))
      remove_steps(folder / "residuals", is_error_feedback);
    remove_files(folder, [](std::string_view name) {
      return is_named_in(run_files, name) || is_named_in(other_files, name) ||
             is_event_file(name) || is_event_log(name) || is_old_best(name);
    });
  });
}

run_directory open_run_directory(const training_settings& training,
                                 const fs::path& root,
                                 std::shared_ptr<const run_lock> held) {
  check_resume(training, root);
  if (training.train_dir.empty()) {
    auto runs = root / "runs";
    return guarded("cannot make a run directory in", runs, [&] {
      auto made = make_next(runs, short_name(training.network));
      return run_directory{made, false, false, run_lock::take(made)};
    });
  }
  auto folder = root / training.train_dir;
  return guarded("cannot use train-dir", folder,
                 [&] { return prepare(folder, training, std::move(held)); });
}

} // namespace troupe::config
