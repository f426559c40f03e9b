#include "actors/worker/error_feedback.hpp"

#include "actors/recording/console.hpp"
#include "config/text/failure.hpp"
#include "models/storage/checkpoint.hpp"
#include "models/storage/safetensors.hpp"
#include "models/storage/tensor_metadata.hpp"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <set>
#include <system_error>
#include <utility>

namespace troupe {

namespace {

namespace fs = std::filesystem;

constexpr const char* folder_name = "residuals";
constexpr const char* tensor_name = "residual";
constexpr const char* left_name = "left"; ///< Of workers that have left.

using recording::say;

void check(const std::error_code& error, const fs::path& path) {
  if (error)
    throw run_error("cannot write " + path.string() + ": " + error.message());
}

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

void write_file(const fs::path& path, const std::vector<float>& numbers,
                const models::tensor_metadata& about) {
  std::error_code error;
  fs::create_directories(path.parent_path(), error);
  check(error, path.parent_path());
  models::named_tensor tensor{tensor_name,
                              "F32",
                              {static_cast<int64_t>(numbers.size())},
                              std::as_bytes(std::span{numbers})};
  models::replace_file(path, [&](models::output_file& out) {
    models::write_safetensors(out, {&tensor, 1}, about);
  });
}

} // namespace

error_feedback::error_feedback(const std::vector<uint64_t>& counts,
                               error_feedback_store store)
  : store_(std::move(store)) {
  for (auto count : counts)
    ranges_.push_back({count, {}, {}});
}

bool error_feedback::has(const std::vector<uint64_t>& counts) const {
  return std::ranges::equal(ranges_, counts, {}, &range::count);
}

// -- gradients ----------------------------------------------------------------

void error_feedback::pack(size_t which, const push_id& id,
                          const pack_function& f) {
  std::lock_guard guard{mutex_};
  auto& at = ranges_[which];
  at.before.resize(at.count);
  if (!f(at.now, at.before)) {
    at.before_after.reset(); // Its memory was overwritten.
    return;
  }
  std::swap(at.now, at.before);
  at.before_after = std::exchange(at.now_after, id);
}

const std::vector<float>*
error_feedback::range::after(const push_id& id) const {
  auto same_life = [&](const push_id& other) {
    return other.worker == id.worker && other.life == id.life;
  };
  if (now_after == id || (id.seq == sequence{0} && !same_life(now_after)))
    return &now;
  if (before_after && (*before_after == id ||
                       (id.seq == sequence{0} && !same_life(*before_after))))
    return &before;
  return nullptr;
}

// -- files --------------------------------------------------------------------

fs::path error_feedback::folder() const {
  return store_.folder / folder_name;
}

fs::path error_feedback::file(version at, worker_id who) const {
  return folder() / models::checkpoint_name(at.value) / name_of(who);
}

void error_feedback::begin(life_number server, version at, worker_id who) {
  if (std::lock_guard guard{mutex_}; server_ == server)
    return;
  std::scoped_lock guard{files_, mutex_};
  if (std::exchange(server_, server) == server)
    return; // Another link was first.
  for (auto& each : ranges_)
    each = range{each.count, {}, {}};
  if (store_.folder.empty())
    return;
  try {
    sort_out(at, who);
    if (!take_over(who))
      read(at, who);
  } catch (const run_error& err) {
    say("feedback     begins at zero: " + std::string{err.what()});
  }
}

// If there is a file of exactly that version, the life began there, and older
// files led to it. If there is none, the life may have begun earlier and the
// worker joined later: then an older file of another life may belong to a
// version that this life never had.
void error_feedback::sort_out(version at, worker_id who) {
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
void error_feedback::keep(uint64_t step, fs::path path) {
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

void error_feedback::read(version at, worker_id who) {
  auto path = file(at, who);
  if (load(path))
    say("feedback     of worker " + to_string(who) + " goes on from " +
        path.string());
}

// What a worker has left in this life of the server is newer than that of the
// version with which the life began. It counts once.
bool error_feedback::take_over(worker_id who) {
  auto path = folder() / left_name / name_of(who);
  auto life = life_in(path, store_.run_id);
  auto taken = life == server_.value && load(path);
  if (life)
    remove_file(path);
  if (taken)
    say("feedback     of worker " + to_string(who) +
        ", which has left, is taken over");
  return taken;
}

/// Takes the numbers of a file of this run, if it is there.
bool error_feedback::load(const fs::path& path) {
  std::error_code error;
  if (!fs::exists(path, error))
    return false;
  auto content = models::read_safetensors(path);
  auto of = content.metadata().find("run_id");
  if (of == content.metadata().end() || of->second != store_.run_id)
    return false;
  uint64_t wanted = 0;
  for (const auto& each : ranges_)
    wanted += each.count;
  const auto* found = content.find(tensor_name);
  if (!found || found->dtype != "F32" || found->bytes.size() != 4 * wanted)
    throw run_error(path.string() + ": does not hold the " +
                    std::to_string(wanted) + " numbers of this network");
  const auto* from = found->bytes.data();
  for (auto& each : ranges_) {
    each.now.resize(each.count);
    std::memcpy(each.now.data(), from, 4 * each.count);
    from += 4 * each.count;
  }
  return true;
}

uint32_t error_feedback::life() {
  std::lock_guard guard{mutex_};
  return server_.value;
}

/// The error feedback of all ranges after this gradient; empty if there is
/// none, or if it is not known any more.
std::vector<float> error_feedback::whole_after(const push_id& id) {
  std::lock_guard guard{mutex_};
  std::vector<float> out;
  auto any = false;
  for (const auto& each : ranges_) {
    const auto* numbers = each.after(id);
    if (!numbers)
      return {};
    any |= !numbers->empty();
    out.insert(out.end(), numbers->begin(), numbers->end());
    out.resize(out.size() + each.count - numbers->size());
  }
  return any ? out : std::vector<float>{};
}

/// @pre `files_` is locked: not while a new life begins.
bool error_feedback::save(const fs::path& to, version at,
                          const push_id& after) {
  auto numbers = whole_after(after);
  if (numbers.empty())
    return false;
  write_file(to, numbers,
             {{"run_id", store_.run_id},
              {"step", std::to_string(at.value)},
              {"worker", std::to_string(after.worker.value)},
              {"life", std::to_string(life())}});
  return true;
}

void error_feedback::write(version at, const push_id& after) {
  if (store_.folder.empty())
    return;
  std::lock_guard guard{files_};
  auto path = file(at, after.worker);
  if (save(path, at, after))
    keep(at.value, std::move(path));
}

void error_feedback::hand_over(const push_id& after) {
  if (store_.folder.empty())
    return;
  std::lock_guard guard{files_};
  auto path = folder() / left_name / name_of(after.worker);
  if (save(path, version{0}, after))
    say("feedback     of worker " + to_string(after.worker) + " is left in " +
        path.string());
}

void forget_error_feedback(const error_feedback_store& of, version after) {
  std::error_code error;
  for (const auto& step : models::list_checkpoints(of.folder / folder_name))
    for (fs::directory_iterator i{step.path, error}, end;
         step.step > after.value && !error && i != end; i.increment(error))
      if (life_in(i->path(), of.run_id))
        remove_file(i->path());
}

caf::result<void>
write_error_feedback(const std::shared_ptr<error_feedback>& feedback,
                     version at, const push_id& after) try {
  if (feedback)
    feedback->write(at, after);
  return caf::unit;
} catch (const run_error& err) {
  say("feedback     is not kept: " + std::string{err.what()});
  return caf::make_error(errc::failed, std::string{err.what()});
}

} // namespace troupe
