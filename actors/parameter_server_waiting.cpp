// Requests that are not looked at yet: while the recorder is too far behind,
// and while other gradients of the same sum are still to come.

#include "actors/parameter_server.hpp"

#include <algorithm>
#include <utility>

namespace troupe {

// -- for the recorder ---------------------------------------------------------

// What nobody writes down must not be done either: notes would pile up.
bool parameter_server_state::must_wait() const {
  return !ending_ && (parts_.notes.is_full() || !waiting_.empty());
}

void parameter_server_state::proceed() {
  parts_.notes.acknowledge();
  while (!waiting_.empty() && !parts_.notes.is_full()) {
    auto next = std::move(waiting_.front());
    waiting_.pop_front();
    next();
  }
}

// -- for the others of a sum --------------------------------------------------

namespace {

caf::error no_part() {
  return caf::make_error(errc::failed,
                         std::string{"the sum of which it is part is void"});
}

} // namespace

// The mean of a sum holds each of its gradients: when one of them is not to
// count, none of its pushes does.
void parameter_server_state::accept_part(const gradient_sum& of,
                                         new_push what) {
  if (ending_)
    return what.asks.deliver(
      caf::make_error(errc::shutting_down, std::string{"the run is over"}));
  if (of.over)
    return what.asks.deliver(no_part());
  auto& all = gathered_[of.number];
  all.what = of;
  all.here.push_back(std::move(what));
  auto whole = all.here.size() == of.pushes.size();
  if (!whole && all.here.size() > 1)
    return; // Who leaves meanwhile is heard of.
  auto sound = in_order(all);
  if (sound && !whole)
    return;
  auto found = std::move(gathered_.extract(of.number).mapped());
  if (!sound)
    return give_up(found);
  if (!must_wait())
    return take_sum(std::move(found));
  waiting_.push_back([this, found = std::move(found)] { take_sum(found); });
}

bool parameter_server_state::in_order(const gathered_sum& what) const {
  auto known = [this](const push_id& id) {
    return conductor_.knows(id.worker, id.life);
  };
  auto good = [this](const new_push& one) {
    const auto& id = one.header.id;
    return !unwelcome(id.worker, id.life, one.header.server) &&
           conductor_.is_fresh(id) &&
           check(one.header, one.gradient) == errc::none;
  };
  auto once = [&what](const push_id& id) {
    return std::ranges::count(what.here, id, [](const new_push& one) {
             return one.header.id;
           }) <= 1;
  };
  return std::ranges::all_of(what.what.pushes, known) &&
         std::ranges::all_of(what.what.pushes, once) &&
         std::ranges::all_of(what.here, good);
}

// It may have waited for the recorder meanwhile.
void parameter_server_state::take_sum(gathered_sum what) {
  if (!ending_ && !in_order(what))
    return give_up(what);
  parts_.sums->take(what.what.number);
  for (auto& one : what.here)
    take_part(std::move(one));
}

// Whoever added up has seen that all numbers are finite.
void parameter_server_state::take_part(new_push one) {
  const auto& id = one.header.id;
  if (ending_ || conductor_.admit(id) != cores::freshness::fresh)
    return one.asks.deliver(
      caf::make_error(errc::shutting_down, std::string{"the run is over"}));
  hold({id.worker, id.life, one.header.request}, one.asks);
  take(one.header, one.gradient, true);
}

void parameter_server_state::give_up(const gathered_sum& what) {
  parts_.sums->give_up(what.what.number);
  for (auto one : what.here)
    one.asks.deliver(no_part());
}

// Its samples are dealt out again in a moment.
void parameter_server_state::leave_sums(worker_id who, incarnation life) {
  if (!parts_.sums)
    return;
  parts_.sums->left(who, life);
  std::vector<gathered_sum> over;
  std::erase_if(gathered_, [&](auto& one) {
    auto is_theirs = [&](const push_id& id) {
      return id.worker == who && id.life == life;
    };
    if (std::ranges::none_of(one.second.what.pushes, is_theirs))
      return false;
    over.push_back(std::move(one.second));
    return true;
  });
  for (const auto& one : over)
    give_up(one);
}

// The run is over, as each of them is told.
void parameter_server_state::answer_waiting() {
  for (auto& next : std::exchange(waiting_, {}))
    next();
  for (auto& [_, sum] : std::exchange(gathered_, {}))
    for (auto& one : sum.here)
      one.asks.deliver(
        caf::make_error(errc::shutting_down, std::string{"the run is over"}));
}

} // namespace troupe
