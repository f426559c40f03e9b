#include "actors/worker/error_feedback.hpp"

#include "actors/recording/console.hpp"
#include "config/text/failure.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

namespace troupe {

namespace {

constexpr const char* tensor_name = "residual";

using recording::say;

} // namespace

error_feedback::error_feedback(const std::vector<uint64_t>& counts,
                               worker_store store)
  : files_(residuals_kind, std::move(store)) {
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
  auto holds = [&id](const push_id& since) {
    return since.worker != id.worker || since <= id;
  };
  if (holds(now_after))
    return &now;
  return before_after && holds(*before_after) ? &before : nullptr;
}

// -- files --------------------------------------------------------------------

void error_feedback::begin(life_number server, version at, worker_id who) {
  if (std::lock_guard guard{mutex_}; server_ == server)
    return;
  std::scoped_lock guard{files_guard_, mutex_};
  if (std::exchange(server_, server) == server)
    return; // Another link was first.
  for (auto& each : ranges_)
    each = range{each.count, {}, {}};
  try {
    auto found = files_.begin(server, at, who);
    if (!found)
      return;
    load(*found);
    say("feedback     of worker " + to_string(who) +
        (found->was_left ? ", which has left, is taken over"
                         : " goes on from " + found->path.string()));
  } catch (const run_error& err) {
    say("feedback     begins at zero: " + std::string{err.what()});
  }
}

void error_feedback::load(const carried_file& from) {
  uint64_t wanted = 0;
  for (const auto& each : ranges_)
    wanted += each.count;
  const auto* found = from.content.find(tensor_name);
  if (!found || found->dtype != "F32" || found->bytes.size() != 4 * wanted)
    throw run_error(from.path.string() + ": does not hold the " +
                    std::to_string(wanted) + " numbers of this network");
  const auto* at = found->bytes.data();
  for (auto& each : ranges_) {
    each.now.resize(each.count);
    std::memcpy(each.now.data(), at, 4 * each.count);
    at += 4 * each.count;
  }
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

/// Writes while no new life begins.
template <class Write>
bool error_feedback::save(const push_id& after, Write write) {
  if (!files_.are_kept())
    return false;
  std::lock_guard guard{files_guard_};
  auto numbers = whole_after(after);
  if (numbers.empty())
    return false;
  models::named_tensor tensor{tensor_name,
                              "F32",
                              {static_cast<int64_t>(numbers.size())},
                              std::as_bytes(std::span{numbers})};
  write(std::span<const models::named_tensor>{&tensor, 1});
  return true;
}

void error_feedback::write(version at, const push_id& after) {
  save(after,
       [&](auto tensors) { files_.write(at, after.worker, tensors, {}); });
}

void error_feedback::hand_over(const push_id& after) {
  save(after, [&](auto tensors) {
    auto path = files_.write_left(after.worker, tensors, {});
    say("feedback     of worker " + to_string(after.worker) + " is left in " +
        path.string());
  });
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
