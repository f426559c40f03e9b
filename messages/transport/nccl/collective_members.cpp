// The members of the collective, and the communicators made for them.

#include "messages/transport/nccl/collective_coordinator.hpp"

#include <algorithm>
#include <limits>
#include <utility>

namespace troupe::transport {

// -- members ------------------------------------------------------------------

collective_coordinator::member*
collective_coordinator::find(const frame_line& who) {
  auto found = std::ranges::find(members_, &who, &member::seat);
  return found == members_.end() ? nullptr : &*found;
}

collective_coordinator::member*
collective_coordinator::find(const nccl::attendee& who) {
  auto found = std::ranges::find(members_, who, &member::who);
  return found == members_.end() ? nullptr : &*found;
}

// A worker that returns over a new path is a different attendee.
void collective_coordinator::enter(frame_line& who,
                                   const collective_attendance& as) {
  lock guard{mutex_};
  if (find(who))
    return;
  members_.push_back({&who,
                      {as.worker, life_number{++entries_}},
                      0,
                      std::nullopt,
                      std::nullopt});
  // Waits for more new members, so that an open communicator ends once for all.
  assemble_at_ = terms_.clock() + terms_.settling;
  members_.front().seat->wake();
}

void collective_coordinator::leave(const frame_line& who) {
  lock guard{mutex_};
  remove(who);
}

void collective_coordinator::remove(const frame_line& who) {
  if (std::erase_if(members_,
                    [&](const member& x) { return x.seat == &who; }) == 0)
    return;
  std::erase_if(void_, [&](const void_push& x) { return x.seat == &who; });
  assemble_at_ = terms_.clock();
  if (!members_.empty())
    members_.front().seat->wake();
}

void collective_coordinator::answered(const frame_line& who,
                                      const collective_answer& answer) {
  lock guard{mutex_};
  if (const auto* from = find(who)) {
    answers_.emplace_back(from->who, answer);
    members_.front().seat->wake();
  }
}

// -- communicators ------------------------------------------------------------

bool collective_coordinator::is_open() const {
  lock guard{mutex_};
  return rendezvous_.is_open(rendezvous_.number());
}

std::optional<double> collective_coordinator::poll(const frame_line& who,
                                                   bool closed) {
  lock guard{mutex_};
  if (closed)
    remove(who);
  auto works = members_.empty() ? closed : members_.front().seat == &who;
  if (!works)
    return closed ? std::nullopt
                  : std::optional{std::numeric_limits<double>::infinity()};
  auto now = terms_.clock();
  move_on(now);
  auto next = next_look(now);
  if (closed && members_.empty() && !transfers_.has_dropped() && !transfer_)
    return std::nullopt;
  return next;
}

void collective_coordinator::move_on(double now) {
  if (assemble_at_ && now >= *assemble_at_) {
    assemble_at_.reset();
    std::vector<nccl::attendee> all;
    for (const auto& one : members_)
      if (!one.left_out && !one.gone)
        all.push_back(one.who);
    carry_out(rendezvous_.assemble(all, now), now);
  }
  take_answers(now);
  look_at_communicator(now);
  carry_out(rendezvous_.due(now), now);
  transfers_.end_dropped(now);
  if (step_ && !step_->held.empty() &&
      now >= step_->held_since + terms_.holding)
    let_held_go();
  if (auto since = oldest_offer(); since && now >= *since + terms_.waiting)
    leave_out_silent(now);
}

// A silent member may be suspended, or much slower than the others.
void collective_coordinator::leave_out_silent(double now) {
  for (const auto& who : rendezvous_.members())
    if (auto* one = find(who);
        one && !one->gone && !one->offered && one->asked == 0) {
      one->left_out = true;
      terms_.say("nccl         worker " + to_string(who.worker) +
                 " takes the stream from now on: the others waited in vain for "
                 "its gradient");
    }
  fetch_all();
  assemble_at_ = now;
}

void collective_coordinator::take_answers(double now) {
  auto all = std::exchange(answers_, {});
  for (const auto& [who, what] : all) {
    switch (what.stage) {
    case collective_stage::accepted:
      rendezvous_.accepted(what.number, who);
      break;
    case collective_stage::declined:
      carry_out(rendezvous_.declined(what.number, who, what.why, now), now);
      break;
    case collective_stage::ready:
      carry_out(rendezvous_.ready(what.number, who, now), now);
      break;
    case collective_stage::broken:
      carry_out(rendezvous_.broken(
                  what.number,
                  "worker " + to_string(who.worker) + ": " + what.why, now),
                now);
      break;
    }
  }
}

void collective_coordinator::look_at_communicator(double now) {
  if (!transfer_)
    return;
  transfer_is_busy_ = transfer_->poll(now);
  if (auto why = transfer_->failure(); !why.empty())
    return carry_out(rendezvous_.broken(rendezvous_.number(), why, now), now);
  if (!root_is_ready_ && transfer_->takes(terms_.weights)) {
    root_is_ready_ = true;
    carry_out(rendezvous_.ready(rendezvous_.number(), std::nullopt, now), now);
  }
}

/// When to look again.
std::optional<double> collective_coordinator::next_look(double now) const {
  auto out = std::numeric_limits<double>::infinity();
  auto by = [&out](double seconds) {
    out = std::min(out, std::max(seconds, nccl::pace));
  };
  if (transfer_)
    by(!root_is_ready_     ? nccl::slow_pace
       : transfer_is_busy_ ? nccl::pace
                           : nccl::idle_pace);
  if (transfers_.has_dropped())
    by(nccl::slow_pace);
  if (!answers_.empty())
    by(nccl::pace);
  if (assemble_at_)
    by(*assemble_at_ - now);
  if (auto due = rendezvous_.next_due())
    by(*due - now);
  if (step_ && !step_->held.empty())
    by(step_->held_since + terms_.holding - now);
  if (auto since = oldest_offer())
    by(*since + terms_.waiting - now);
  return out;
}

void collective_coordinator::carry_out(const nccl::orders& all, double now) {
  for (const auto& one : all)
    std::visit([&](const auto& value) { carry_out(value, now); }, one);
}

void collective_coordinator::carry_out(const nccl::make_id& order, double now) {
  nccl::orders next;
  try {
    next = rendezvous_.identified(order.number, transfers_.make_id(), now);
  } catch (const path_error& err) {
    next = rendezvous_.broken(order.number, err.what(), now);
  }
  carry_out(next, now);
}

void collective_coordinator::carry_out(const nccl::invite& order, double) {
  if (auto* to = find(order.to))
    to->seat->send_now({frame_kind::collective_call,
                        {},
                        write_header(collective_call{order.number, order.rank,
                                                     order.size, order.id}),
                        {}});
}

void collective_coordinator::carry_out(const nccl::begin_root& order,
                                       double now) {
  transfer_ = transfers_.begin(order.id, nccl::nccl_transfer::root,
                               static_cast<int>(order.size), now);
  root_is_ready_ = false;
}

void collective_coordinator::carry_out(const nccl::announce& order, double) {
  const auto& all = rendezvous_.members();
  if (order.to == all.back())
    terms_.say("nccl         " + std::to_string(all.size()) +
               " workers have met: their gradients are added up on the "
               "devices");
  if (auto* to = find(order.to))
    to->seat->send_now({frame_kind::collective_open,
                        {},
                        write_header(collective_open{order.number}),
                        {}});
}

void collective_coordinator::carry_out(const nccl::dissolve& order, double) {
  if (auto* to = find(order.to))
    to->seat->send_now({frame_kind::collective_over,
                        {},
                        write_header(collective_over{order.number, order.why}),
                        {}});
}

// Unfinished transfers use the stream.
void collective_coordinator::carry_out(const nccl::end_root& order, double) {
  if (transfer_) {
    terms_.say("nccl         over for now, tensors take the stream: " +
               order.why);
    transfers_.drop(std::exchange(transfer_, nullptr), order.why);
  }
  give_up_step();
  fetch_all();
}

void collective_coordinator::carry_out(const nccl::leave_out& order, double) {
  terms_.say("nccl         worker " + to_string(order.who.worker) +
             " takes the stream from now on: " + order.why);
}

void collective_coordinator::carry_out(const nccl::switch_off& order, double) {
  terms_.say("nccl         off, all tensors take the stream: " + order.why);
}

} // namespace troupe::transport
