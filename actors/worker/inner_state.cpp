#include "actors/worker/inner_state.hpp"

#include "actors/recording/console.hpp"
#include "config/text/failure.hpp"

#include <ATen/ops/empty.h>

#include <charconv>
#include <cstring>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace troupe {

namespace {

using recording::say;

std::vector<models::named_tensor>
tensors_of(const models::inner_numbers& state) {
  std::vector<models::named_tensor> out;
  for (const auto& [name, flat] : state.slots)
    out.push_back({name,
                   flat.scalar_type() == at::kDouble ? "F64" : "F32",
                   {flat.numel()},
                   {static_cast<const std::byte*>(flat.const_data_ptr()),
                    static_cast<size_t>(flat.nbytes())}});
  return out;
}

models::tensor_metadata about(const models::inner_numbers& state) {
  return {{"steps", std::to_string(state.steps)}};
}

} // namespace

std::shared_ptr<const models::inner_numbers>
inner_numbers_in(const carried_file& from) {
  auto out = std::make_shared<models::inner_numbers>();
  auto steps = from.content.metadata().find("steps");
  if (steps != from.content.metadata().end())
    std::from_chars(steps->second.data(),
                    steps->second.data() + steps->second.size(), out->steps);
  for (const auto& one : from.content.tensors()) {
    auto wide = one.dtype == "F64";
    if ((!wide && one.dtype != "F32") || one.shape.size() != 1)
      throw run_error(from.path.string() +
                      ": is no state of a worker's optimiser");
    auto flat = at::empty({one.shape.front()}, wide ? at::kDouble : at::kFloat);
    std::memcpy(flat.mutable_data_ptr(), one.bytes.data(), one.bytes.size());
    out->slots.push_back({one.name, std::move(flat)});
  }
  return out;
}

inner_state::inner_state(worker_store store)
  : files_(inner_optimizer_kind, std::move(store)) {
  // nop
}

void inner_state::begin(life_number server, version at, worker_id who) {
  if (std::lock_guard guard{mutex_}; server_ == server)
    return;
  std::scoped_lock guard{files_guard_, mutex_};
  server_ = server;
  first_ = nullptr;
  now_.reset();
  before_.reset();
  try {
    auto found = files_.begin(server, at, who);
    if (!found) {
      if (at != version{0})
        say("optimizer    of worker " + to_string(who) +
            " is new: none was saved for it with version " + to_string(at));
      return;
    }
    first_ = inner_numbers_in(*found);
    say("optimizer    of worker " + to_string(who) +
        (found->was_left ? ", which has left, is taken over"
                         : " goes on from " + found->path.string()));
  } catch (const run_error& err) {
    say("optimizer    of worker " + to_string(who) +
        " begins anew: " + std::string{err.what()});
  }
}

/// Null: it is not one of the last two.
auto inner_state::find(const push_id& after) const -> const kept* {
  for (const auto* each : {&now_, &before_})
    if (*each && (*each)->after == after)
      return &**each;
  return nullptr;
}

auto inner_state::go_back_to(const push_id& after) -> numbers {
  std::lock_guard guard{mutex_};
  const auto* found = find(after);
  auto out = found ? found->state : first_;
  if (now_ && now_->after != after) {
    now_.reset();
    if (before_ && before_->after == after)
      now_ = std::exchange(before_, std::nullopt);
  }
  return out;
}

void inner_state::keep(const push_id& made, numbers state) {
  std::lock_guard guard{mutex_};
  auto gone = std::exchange(before_, std::exchange(now_, kept{made, state}));
  if (gone && gone->state && gone->state.use_count() == 1)
    spare_ = std::const_pointer_cast<models::inner_numbers>(gone->state);
}

std::shared_ptr<models::inner_numbers> inner_state::take_spare() {
  std::lock_guard guard{mutex_};
  return std::exchange(spare_, nullptr);
}

// A life of the worker that has pushed nothing goes on from the last gradient
// of the life before.
template <class Write>
bool inner_state::save(const push_id& after, Write write) {
  if (!files_.are_kept())
    return false;
  std::lock_guard guard{files_guard_};
  numbers state;
  {
    std::lock_guard its{mutex_};
    if (const auto* found = find(after))
      state = found->state;
    else if (after.seq == sequence{0})
      state = now_ && now_->after.life != after.life ? now_->state : first_;
  }
  if (!state)
    return false;
  write(tensors_of(*state), about(*state));
  return true;
}

void inner_state::write(version at, const push_id& after) {
  save(after, [&](const auto& tensors, auto about) {
    files_.write(at, after.worker, tensors, std::move(about));
  });
}

void inner_state::hand_over(const push_id& after) {
  save(after, [&](const auto& tensors, auto about) {
    auto path = files_.write_left(after.worker, tensors, std::move(about));
    say("optimizer    of worker " + to_string(after.worker) + " is left in " +
        path.string());
  });
}

} // namespace troupe
