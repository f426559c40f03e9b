#include "actors/residual.hpp"

#include "actors/recording/console.hpp"
#include "config/failure.hpp"
#include "models/checkpoint.hpp"
#include "models/safetensors.hpp"

#include <algorithm>
#include <cstring>
#include <system_error>
#include <utility>

namespace troupe {

namespace {

namespace fs = std::filesystem;

constexpr const char* folder_name = "residuals";
constexpr const char* tensor_name = "residual";

using recording::say;

void check(const std::error_code& error, const fs::path& path) {
  if (error)
    throw run_error("cannot write " + path.string() + ": " + error.message());
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

residual::residual(std::vector<uint64_t> counts, residual_store store)
  : store_(std::move(store)) {
  for (auto count : counts)
    ranges_.push_back({count, {}, {}});
}

bool residual::has(const std::vector<uint64_t>& counts) const {
  return std::ranges::equal(ranges_, counts, {}, &range::count);
}

// -- gradients ----------------------------------------------------------------

void residual::pack(size_t which, const push_id& id, const pack_function& f) {
  std::lock_guard guard{mutex_};
  auto& at = ranges_[which];
  at.before.resize(at.count);
  if (!f(at.now, at.before)) {
    at.before_after.reset(); // Its memory was written to.
    return;
  }
  std::swap(at.now, at.before);
  at.before_after = std::exchange(at.now_after, id);
}

const std::vector<float>* residual::range::after(const push_id& id) const {
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

fs::path residual::file(version at, worker_id who) const {
  return store_.folder / folder_name / models::checkpoint_name(at.value) /
         ("worker-" + std::to_string(who.value) + ".safetensors");
}

void residual::begin(incarnation server, version at, worker_id who) {
  std::lock_guard guard{mutex_};
  if (std::exchange(server_, server) == server)
    return;
  for (auto& each : ranges_)
    each = range{each.count, {}, {}};
  if (store_.folder.empty())
    return;
  try {
    read(at, who);
  } catch (const run_error& err) {
    say("residual     begins at zero: " + std::string{err.what()});
  }
}

void residual::read(version at, worker_id who) {
  auto path = file(at, who);
  std::error_code error;
  if (!fs::exists(path, error))
    return;
  auto content = models::read_safetensors(path);
  auto of = content.metadata().find("run_id");
  if (of == content.metadata().end() || of->second != store_.run_id)
    return;
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
  say("residual     of worker " + to_string(who) + " goes on from " +
      path.string());
}

/// Empty: there is none, or it is not known any more.
std::vector<float> residual::whole_after(const push_id& id) {
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

void residual::write(version at, const push_id& after) {
  if (store_.folder.empty())
    return;
  auto numbers = whole_after(after);
  if (numbers.empty())
    return;
  write_file(file(at, after.worker), numbers,
             {{"run_id", store_.run_id},
              {"step", std::to_string(at.value)},
              {"worker", std::to_string(after.worker.value)}});
  prune();
}

// Several workers may share a folder: what one of them removes is gone for the
// others, too.
void residual::prune() const {
  std::error_code error;
  std::vector<fs::path> steps;
  for (fs::directory_iterator at{store_.folder / folder_name, error}, end;
       !error && at != end; at.increment(error))
    if (at->path().filename().string().starts_with("step-"))
      steps.push_back(at->path());
  std::ranges::sort(steps);
  for (size_t i = 0; i + store_.keep < steps.size(); ++i)
    fs::remove_all(steps[i], error);
}

caf::result<void> write_residual(const std::shared_ptr<residual>& what,
                                 version at, const push_id& after) try {
  if (what)
    what->write(at, after);
  return caf::unit;
} catch (const run_error& err) {
  say("residual     is not kept: " + std::string{err.what()});
  return caf::make_error(errc::failed, std::string{err.what()});
}

} // namespace troupe
