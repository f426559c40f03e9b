#include "actors/server/gathered_sums.hpp"

#include "actors/runtime/run_is_over.hpp"

#include <algorithm>

namespace troupe {

namespace {

caf::error no_part() {
  return caf::make_error(errc::failed,
                         std::string{"the sum of which it is part is void"});
}

} // namespace

void gathered_sums::accept(const gradient_sum& of, new_push push) {
  if (closed_)
    return push.asks.deliver(run_is_over());
  if (of.over)
    return push.asks.deliver(no_part());
  auto& all = open_[of.number];
  all.what = of;
  all.here.push_back(std::move(push));
  auto whole = all.here.size() == of.pushes.size();
  if (!whole && all.here.size() > 1)
    return; // If one of them leaves, `leave` is called.
  auto sound = in_order(all);
  if (sound && !whole)
    return;
  auto found = std::move(open_.extract(of.number).mapped());
  if (!sound)
    return give_up(found);
  desk_.when_ready([this, found = std::move(found)] { hand_in(found); });
}

bool gathered_sums::in_order(const gathered& sum) const {
  auto once = [&sum](const push_id& id) {
    return std::ranges::count(sum.here, id, [](const new_push& one) {
             return one.header.id;
           }) <= 1;
  };
  auto is_known = [this](const push_id& id) {
    return desk_.knows(id);
  };
  auto is_good = [this](const new_push& one) {
    return desk_.is_good(one);
  };
  return std::ranges::all_of(sum.what.pushes, is_known) &&
         std::ranges::all_of(sum.what.pushes, once) &&
         std::ranges::all_of(sum.here, is_good);
}

// Checks the sum again, since it may have waited for the recorder meanwhile.
void gathered_sums::hand_in(gathered sum) {
  if (!closed_ && !in_order(sum))
    return give_up(sum);
  sums_->note_accepted(sum.what.number);
  for (auto& one : sum.here)
    desk_.accept_part(std::move(one));
}

void gathered_sums::give_up(const gathered& sum) {
  sums_->give_up(sum.what.number);
  for (auto one : sum.here)
    one.asks.deliver(no_part());
}

// Gives up the sums that this worker is part of, since its samples are handed
// out again soon.
void gathered_sums::leave(worker_id who, life_number life) {
  if (!sums_)
    return;
  sums_->left(who, life);
  std::vector<gathered> void_now;
  std::erase_if(open_, [&](auto& one) {
    auto is_theirs = [&](const push_id& id) {
      return id.worker == who && id.life == life;
    };
    if (std::ranges::none_of(one.second.what.pushes, is_theirs))
      return false;
    void_now.push_back(std::move(one.second));
    return true;
  });
  for (const auto& one : void_now)
    give_up(one);
}

void gathered_sums::close() {
  closed_ = true;
  for (auto& [_, sum] : std::exchange(open_, {}))
    for (auto& one : sum.here)
      one.asks.deliver(run_is_over());
}

} // namespace troupe
