#include "messages/transport/nccl/rendezvous.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>

namespace troupe::transport::nccl {

// -- facts --------------------------------------------------------------------

orders rendezvous::assemble(const std::vector<attendee>& who, double now) {
  orders out;
  present_ = {who.begin(), who.end()};
  // Nothing is kept about members that left: they return with a new
  // life.
  std::erase_if(left_out_, [&](auto& x) { return !present_.contains(x); });
  std::erase_if(strikes_, [&](auto& x) { return !present_.contains(x.first); });
  auto before = members_;
  choose_members();
  if (phase_ == phase::off || members_ == before)
    return out;
  if (under_way(number_))
    end_epoch("the members have changed", out);
  if (phase_ != phase::resting)
    start(now, out);
  return out;
}

orders rendezvous::identified(epoch number, const id_bytes& id, double) {
  orders out;
  if (phase_ != phase::naming || number != number_)
    return out;
  phase_ = phase::gathering;
  auto size = static_cast<uint32_t>(members_.size() + 1);
  uint32_t rank = 0;
  called_ = members_;
  for (const auto& who : members_)
    out.push_back(invite{who, number, id, ++rank, size});
  out.push_back(begin_root{number, id, size});
  return out;
}

void rendezvous::accepted(epoch number, const attendee& who) {
  if (number != number_ || silent_.erase(who) == 0)
    return;
  strikes_.erase(who);
}

orders rendezvous::declined(epoch number, const attendee& who,
                            const std::string& why, double now) {
  orders out;
  auto called =
    phase_ == phase::gathering && number == number_ &&
    std::find(members_.begin(), members_.end(), who) != members_.end();
  if (!called)
    return out;
  exclude(who, why, out);
  end_epoch("worker " + to_string(who.worker) + " does not come: " + why, out);
  choose_members();
  // Starts again without a pause, since nothing is wrong with the others.
  start(now, out);
  return out;
}

orders rendezvous::ready(epoch number, const std::optional<attendee>& who,
                         double now) {
  orders out;
  if (phase_ != phase::gathering || number != number_)
    return out;
  if (who) {
    accepted(number, *who);
    not_ready_.erase(*who);
  } else {
    root_ready_ = true;
  }
  if (!root_ready_ || !not_ready_.empty())
    return out;
  phase_ = phase::open;
  opened_ = now;
  for (const auto& member : members_)
    out.push_back(announce{member, number});
  return out;
}

orders rendezvous::broken(epoch number, const std::string& why, double now) {
  orders out;
  if (under_way(number))
    fail(why, now, out);
  return out;
}

orders rendezvous::due(double now) {
  orders out;
  auto at = next_due();
  if (!at || now < *at)
    return out;
  if (phase_ == phase::resting) {
    choose_members();
    start(now, out);
    return out;
  }
  if (phase_ == phase::naming) {
    fail("there was no id in time", now, out);
  } else if (silent_.empty()) {
    fail("not all were ready in time", now, out);
  } else {
    auto who = to_string(silent_.begin()->worker);
    strike_silent(out);
    rest("worker " + who + " did not answer", now, out);
  }
  return out;
}

// -- properties ---------------------------------------------------------------

std::optional<double> rendezvous::next_due() const {
  switch (phase_) {
  case phase::naming:
  case phase::gathering:
  case phase::resting:
    return due_;
  default:
    return std::nullopt;
  }
}

bool rendezvous::under_way(epoch number) const {
  return number == number_ &&
         (phase_ == phase::naming || phase_ == phase::gathering ||
          phase_ == phase::open);
}

// -- steps --------------------------------------------------------------------

void rendezvous::choose_members() {
  members_.clear();
  std::set_difference(present_.begin(), present_.end(), left_out_.begin(),
                      left_out_.end(), std::back_inserter(members_));
}

void rendezvous::start(double now, orders& out) {
  phase_ = phase::idle;
  if (members_.empty())
    return;
  number_ = number_.next();
  phase_ = phase::naming;
  due_ = now + rules_.patience;
  silent_ = not_ready_ = {members_.begin(), members_.end()};
  root_ready_ = false;
  out.push_back(make_id{number_});
}

/// Tells all who were called and are still there.
void rendezvous::end_epoch(const std::string& why, orders& out) {
  auto called = phase_ != phase::naming;
  phase_ = phase::idle;
  if (!called)
    return;
  for (const auto& who : called_)
    if (present_.contains(who))
      out.push_back(dissolve{who, number_, why});
  out.push_back(end_root{number_, why});
}

/// Notes a failure that no one worker caused.
void rendezvous::fail(const std::string& why, double now, orders& out) {
  if (phase_ == phase::open && now - opened_ >= rules_.longest_pause)
    failed_in_row_ = 0;
  ++failed_in_row_;
  rest(why, now, out);
  if (failed_in_row_ >= rules_.failures) {
    phase_ = phase::off;
    out.push_back(switch_off{why});
  }
}

void rendezvous::rest(const std::string& why, double now, orders& out) {
  why_ = why;
  end_epoch(why, out);
  phase_ = phase::resting;
  auto doublings = static_cast<int>(std::max(failed_in_row_, 1u)) - 1;
  due_ =
    now + std::min(rules_.longest_pause, std::ldexp(rules_.pause, doublings));
}

void rendezvous::strike_silent(orders& out) {
  for (const auto& who : silent_)
    if (++strikes_[who] >= rules_.strikes)
      exclude(who, "it did not answer", out);
}

void rendezvous::exclude(const attendee& who, const std::string& why,
                         orders& out) {
  left_out_.insert(who);
  strikes_.erase(who);
  out.push_back(leave_out{who, why});
}

} // namespace troupe::transport::nccl
