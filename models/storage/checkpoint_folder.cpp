// The functions of checkpoint.hpp that manage a folder of checkpoints.

#include "config/text/failure.hpp"
#include "models/storage/checkpoint.hpp"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <system_error>

namespace troupe::models {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view step_prefix = "step-";
constexpr std::string_view temporary_prefix = ".tmp-";
constexpr std::string_view old_prefix = ".old-";
constexpr std::string_view abandoned_prefix = "abandoned-";

/// The step of a checkpoint's name, or nothing when it is not one.
std::optional<uint64_t> step_of(std::string_view name) {
  if (!name.starts_with(step_prefix))
    return std::nullopt;
  auto digits = name.substr(step_prefix.size());
  uint64_t result = 0;
  std::from_chars(digits.data(), digits.data() + digits.size(), result);
  if (name != checkpoint_name(result))
    return std::nullopt;
  return result;
}

/// What follows `prefix` in `name` when that is a checkpoint's name, else "".
std::string_view after(std::string_view prefix, std::string_view name) {
  if (!name.starts_with(prefix) || !step_of(name.substr(prefix.size())))
    return {};
  return name.substr(prefix.size());
}

/// "abandoned-step-00000300", "abandoned-step-00000300.2"
bool is_abandoned(std::string_view name) {
  if (!name.starts_with(abandoned_prefix))
    return false;
  name.remove_prefix(abandoned_prefix.size());
  auto dot = std::min(name.find('.'), name.size());
  auto number = name.substr(std::min(dot + 1, name.size()));
  return step_of(name.substr(0, dot)) &&
         (dot == name.size() || !number.empty()) &&
         number.find_first_not_of("0123456789") == number.npos;
}

/// All names in a folder; empty when there is no such folder.
std::vector<std::string> names_in(const fs::path& dir) {
  std::vector<std::string> result;
  std::error_code error;
  if (!fs::exists(fs::status(dir, error)))
    return result;
  fs::directory_iterator at{dir, error};
  for (; !error && at != fs::directory_iterator{}; at.increment(error))
    result.push_back(at->path().filename().string());
  if (error)
    throw run_error("cannot list " + dir.string() + ": " + error.message());
  return result;
}

void rename_to(const fs::path& from, const fs::path& to) {
  std::error_code error;
  fs::rename(from, to, error);
  if (error)
    throw run_error("cannot rename " + from.string() + " to " + to.string() +
                    ": " + error.message());
}

void remove_tree(const fs::path& path) {
  std::error_code error;
  fs::remove_all(path, error);
  if (error)
    throw run_error("cannot remove " + path.string() + ": " + error.message());
}

} // namespace

std::vector<checkpoint_entry> list_checkpoints(const fs::path& dir) {
  std::vector<checkpoint_entry> result;
  for (const auto& name : names_in(dir))
    if (auto step = step_of(name))
      result.push_back({*step, dir / name});
  std::sort(result.begin(), result.end(), [](const auto& lhs, const auto& rhs) {
    return lhs.step < rhs.step;
  });
  return result;
}

std::optional<loaded_checkpoint> newest_valid(const fs::path& dir,
                                              const line_sink& on_skip,
                                              checkpoint_content content) {
  auto all = list_checkpoints(dir);
  for (auto at = all.rbegin(); at != all.rend(); ++at) {
    try {
      return read_checkpoint(at->path, content);
    } catch (const run_error& x) {
      if (on_skip)
        on_skip(std::string{x.what()} + "; trying the one before");
    }
  }
  return std::nullopt;
}

loaded_checkpoint find_checkpoint(const fs::path& path,
                                  const line_sink& on_skip,
                                  checkpoint_content content) {
  std::error_code error;
  auto name =
    path.has_filename() ? path.filename() : path.parent_path().filename();
  if (step_of(name.string()) || fs::exists(path / "manifest.pb", error) ||
      !fs::exists(path, error))
    return read_checkpoint(path, content);
  auto inner = path / "checkpoints";
  auto dir = fs::is_directory(inner, error) ? inner : path;
  if (auto result = newest_valid(dir, on_skip, content))
    return std::move(*result);
  throw run_error("no usable checkpoint in " + dir.string());
}

std::vector<fs::path> list_abandoned(const fs::path& dir) {
  std::vector<std::pair<fs::file_time_type, fs::path>> found;
  for (const auto& name : names_in(dir)) {
    if (!is_abandoned(name))
      continue;
    std::error_code error;
    auto written = fs::last_write_time(dir / name, error);
    if (!error && fs::is_directory(dir / name, error))
      found.emplace_back(written, dir / name);
  }
  std::ranges::sort(found);
  std::vector<fs::path> out;
  for (auto& [_, path] : found)
    out.push_back(std::move(path));
  return out;
}

void prune(const fs::path& dir, size_t keep, std::span<const uint64_t> stay) {
  auto all = list_checkpoints(dir);
  std::erase_if(all, [](const auto& x) {
    std::error_code error;
    return !fs::is_directory(x.path, error);
  });
  keep = std::max<size_t>(keep, 1);
  // First renames them durably, since a checkpoint that is only half removed
  // after a crash must not be taken for one.
  std::vector<fs::path> doomed;
  for (size_t i = 0; i + keep < all.size(); ++i) {
    if (std::ranges::find(stay, all[i].step) != stay.end())
      continue;
    auto name = all[i].path.filename().string();
    doomed.push_back(dir / (std::string{temporary_prefix} + name));
    remove_tree(doomed.back());
    rename_to(all[i].path, doomed.back());
  }
  if (!doomed.empty())
    sync_folder(dir);
  for (const auto& path : doomed)
    remove_tree(path);
  // An abandoned checkpoint that is only half removed keeps its name, so the
  // next call removes the rest.
  auto abandoned = list_abandoned(dir);
  for (size_t i = 0; i + keep < abandoned.size(); ++i)
    remove_tree(abandoned[i]);
}

void set_aside_newer(const fs::path& dir, uint64_t step,
                     const line_sink& on_line) {
  auto any = false;
  for (const auto& x : list_checkpoints(dir)) {
    if (x.step <= step)
      continue;
    any = true;
    auto to = free_name(
      dir / (std::string{abandoned_prefix} + x.path.filename().string()));
    rename_to(x.path, to);
    if (on_line)
      on_line("the run goes on from step " + std::to_string(step) + ": " +
              x.path.string() + " is now " + to.filename().string());
  }
  // Otherwise, after a power failure, a run could continue from them after all.
  if (any)
    sync_folder(dir);
}

size_t remove_leftovers(const fs::path& dir) {
  size_t result = 0;
  for (const auto& name : names_in(dir)) {
    auto old = after(old_prefix, name);
    std::error_code error;
    if (!old.empty() && !fs::exists(dir / old, error)) {
      rename_to(dir / name, dir / old);
    } else if (!old.empty() || !after(temporary_prefix, name).empty() ||
               name.starts_with(tensor_draft::prefix)) {
      remove_tree(dir / name);
      ++result;
    }
  }
  return result;
}

} // namespace troupe::models
