#include "actors/worker/worker_files.hpp"

#include "config/text/failure.hpp"
#include "models/storage/checkpoint.hpp"
#include "models/storage/tensor_metadata.hpp"

#include <algorithm>
#include <charconv>
#include <set>
#include <system_error>
#include <utility>

namespace troupe {

namespace {

namespace fs = std::filesystem;

constexpr const char* left_name = "left"; ///< Of workers that have left.

std::string name_of(worker_id who) {
  return "worker-" + std::to_string(who.value) + ".safetensors";
}

bool remove_file(const fs::path& path) {
  std::error_code error;
  fs::remove(path.string() + ".tmp", error);
  fs::remove(path, error);
  return true;
}

/// The life of the server in which a file of this run was written; 0 if it does
/// not say. A file that cannot be read counts as absent.
std::optional<uint64_t> life_in(const fs::path& path,
                                const std::string& run_id) try {
  std::error_code error;
  if (!fs::is_regular_file(path, error))
    return std::nullopt;
  auto about = models::read_metadata(path);
  if (about["run_id"] != run_id)
    return std::nullopt;
  uint64_t life = 0;
  const auto& text = about["life"];
  std::from_chars(text.data(), text.data() + text.size(), life);
  return life;
} catch (const run_error&) {
  return std::nullopt;
}

} // namespace

fs::path carried_path(const fs::path& run, const char* kind, version at,
                      worker_id who) {
  return run / kind / models::checkpoint_name(at.value) / name_of(who);
}

worker_files::worker_files(const char* kind, worker_store store)
  : kind_(kind), store_(std::move(store)) {
  // nop
}

fs::path worker_files::folder() const {
  return store_.folder / kind_;
}

fs::path worker_files::file(version at, worker_id who) const {
  return carried_path(store_.folder, kind_, at, who);
}

fs::path worker_files::left(worker_id who) const {
  return folder() / left_name / name_of(who);
}

std::optional<carried_file> worker_files::begin(life_number server, version at,
                                                worker_id who) {
  server_ = server;
  if (!are_kept())
    return std::nullopt;
  sort_out(at, who);
  auto path = left(who);
  auto life = life_in(path, store_.run_id);
  std::optional<carried_file> out;
  if (life == server.value) {
    out = read(path);
    out->was_left = true;
  }
  if (life)
    remove_file(path);
  return out ? std::move(out) : read(file(at, who));
}

/// If it is there, and of this run.
std::optional<carried_file> worker_files::read(const fs::path& path) const {
  std::error_code error;
  if (!fs::exists(path, error))
    return std::nullopt;
  carried_file out{path, models::read_safetensors(path)};
  const auto& about = out.content.metadata();
  auto of = about.find("run_id");
  if (of == about.end() || of->second != store_.run_id)
    return std::nullopt;
  return out;
}

// If the worker has a file of exactly that version, the life began there, and
// its older files led to it. Else the life may have begun earlier, and the
// worker have joined later: then an older file of another life may belong to a
// version that this life never had.
void worker_files::sort_out(version at, worker_id who) {
  auto begins_here = life_in(file(at, who), store_.run_id).has_value();
  std::erase_if(kept_, [&](const kept_file& each) {
    return each.step > at.value && remove_file(each.path);
  });
  for (const auto& step : models::list_checkpoints(folder())) {
    auto path = step.path / name_of(who);
    auto life = life_in(path, store_.run_id);
    if (!life)
      continue;
    if (step.step > at.value || (!begins_here && *life < server_.value))
      remove_file(path);
    else
      keep(step.step, path);
  }
}

/// Records the file, and removes the oldest when there are too many steps.
void worker_files::keep(uint64_t step, fs::path path) {
  auto is_same = [&](const kept_file& each) {
    return each.path == path;
  };
  if (std::ranges::none_of(kept_, is_same))
    kept_.push_back({step, std::move(path)});
  std::ranges::stable_sort(kept_, {}, &kept_file::step);
  std::set<uint64_t> steps;
  for (const auto& each : kept_)
    steps.insert(each.step);
  while (steps.size() > std::max<size_t>(store_.keep, 1))
    steps.erase(steps.begin());
  auto gone = std::erase_if(kept_, [&](const kept_file& each) {
    return each.step < *steps.begin() && remove_file(each.path);
  });
  if (gone == 0)
    return;
  // Several workers may share a folder: it is removed when no worker has a file
  // there.
  std::error_code error;
  for (const auto& old : models::list_checkpoints(folder()))
    if (old.step < *steps.begin())
      fs::remove(old.path, error);
}

void worker_files::write(version at, worker_id who,
                         std::span<const models::named_tensor> tensors,
                         models::tensor_metadata about) {
  auto path = file(at, who);
  write(path, at, who, tensors, std::move(about));
  keep(at.value, std::move(path));
}

fs::path worker_files::write_left(worker_id who,
                                  std::span<const models::named_tensor> tensors,
                                  models::tensor_metadata about) {
  auto path = left(who);
  write(path, version{0}, who, tensors, std::move(about));
  return path;
}

void worker_files::write(const fs::path& to, version at, worker_id who,
                         std::span<const models::named_tensor> tensors,
                         models::tensor_metadata about) const {
  std::error_code error;
  fs::create_directories(to.parent_path(), error);
  if (error)
    throw run_error("cannot write " + to.parent_path().string() + ": " +
                    error.message());
  about["run_id"] = store_.run_id;
  about["step"] = std::to_string(at.value);
  about["worker"] = std::to_string(who.value);
  about["life"] = std::to_string(server_.value);
  models::replace_file(to, [&](models::output_file& out) {
    models::write_safetensors(out, tensors, about);
  });
}

void forget_carried(const worker_store& of, version after) {
  std::error_code error;
  for (const auto* kind : {residuals_kind, inner_optimizer_kind})
    for (const auto& step : models::list_checkpoints(of.folder / kind))
      for (fs::directory_iterator i{step.path, error}, end;
           step.step > after.value && !error && i != end; i.increment(error))
        if (life_in(i->path(), of.run_id))
          remove_file(i->path());
}

} // namespace troupe
