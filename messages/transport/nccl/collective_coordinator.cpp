#include "messages/transport/nccl/collective_coordinator.hpp"

#include "messages/finite.hpp"

#include <algorithm>
#include <chrono>
#include <limits>
#include <utility>

namespace troupe::transport {

namespace {

/// Has the worker send the gradient that it offered.
void send_fetch(frame_line& seat, transfer_id request) {
  seat.send_now({frame_kind::fetch, request, {}, {}});
}

double steady_seconds() {
  std::chrono::duration<double> since =
    std::chrono::steady_clock::now().time_since_epoch();
  return since.count();
}

} // namespace

collective_coordinator::collective_coordinator(collective_terms terms)
  : terms_(std::move(terms)), sums_(terms_.weights.bytes()),
    rendezvous_(terms_.rules), transfers_({terms_.library, terms_.device, false,
                                           terms_.limits, terms_.transfer},
                                          terms_.weights) {
  if (!terms_.clock)
    terms_.clock = steady_seconds;
  if (!terms_.say)
    terms_.say = [](const std::string&) {
    };
}

// Unfinished transfers call back now, while all members still exist.
collective_coordinator::~collective_coordinator() {
  members_.clear();
  step_.reset();
  void_.clear();
  transfer_.reset();
}

// -- gradients ----------------------------------------------------------------

void collective_coordinator::asked(const frame_line& who,
                                   std::optional<life_number> life) {
  lock guard{mutex_};
  auto* from = find(who);
  if (from == nullptr)
    return;
  ++from->asked;
  if (life)
    from->life = life;
  from->last.reset();
  decide();
}

// A worker that the lead has removed is told to send its own gradient, which
// the lead then refuses.
void collective_coordinator::offered(frame_line& who, collective_offer news) {
  lock guard{mutex_};
  auto* from = find(who);
  if (from == nullptr || from->gone)
    return send_fetch(who, news.request);
  from->life = news.id.life;
  from->offered = offer{std::move(news), terms_.clock()};
  from->last.reset();
  members_.front().seat->wake();
  decide();
}

void collective_coordinator::decide() {
  if (std::ranges::none_of(members_,
                           [](const auto& x) { return x.offered.has_value(); }))
    return;
  if (!rendezvous_.is_open(rendezvous_.number()))
    return fetch_all();
  auto all = true;
  for (const auto& who : rendezvous_.members()) {
    const auto* it = find(who);
    if (it == nullptr)
      return; // Gone: the communicator ends in a moment.
    if (it->gone)
      return fetch_all(); // The same.
    if (!it->offered && it->asked == 0)
      return; // Computes.
    all &= it->offered && it->offered->gradient == terms_.weights;
  }
  // Members outside the communicator must not have offered a gradient, which
  // the sum would lack.
  auto outsider = std::ranges::any_of(members_, [&](const member& x) {
    return x.offered && !std::ranges::count(rendezvous_.members(), x.who);
  });
  if (!all || outsider || step_ || !transfer_->takes(terms_.weights))
    return fetch_all();
  begin_step();
}

void collective_coordinator::fetch_all() {
  for (auto& one : members_)
    if (auto value = std::exchange(one.offered, std::nullopt))
      send_fetch(*one.seat, value->request);
}

std::optional<double> collective_coordinator::oldest_offer() const {
  std::optional<double> out;
  for (const auto& one : members_)
    if (one.offered && (!out || one.offered->since < *out))
      out = one.offered->since;
  return out;
}

void collective_coordinator::begin_step() {
  step next;
  next.number = ++steps_;
  uint64_t samples = 0;
  for (auto& one : members_)
    if (auto value = std::exchange(one.offered, std::nullopt)) {
      samples += value->samples;
      next.parts.emplace(one.who, std::move(*value));
    }
  auto sum = sums_.take_block();
  std::span target{sum.get(), static_cast<size_t>(terms_.weights.bytes())};
  next.sum = sum;
  step_ = std::move(next);
  // The memory is held until the NCCL transfer has released it, whatever
  // happens here.
  transfer_->sum(target, terms_.weights.type,
                 [this, number = steps_, sum = std::move(sum)](bool done) {
                   summed(number, done);
                 });
  if (!step_)
    return; // It failed at once.
  for (const auto& [who, what] : step_->parts) {
    auto share = samples == 0 ? 0.
                              : static_cast<double>(what.samples) /
                                  static_cast<double>(samples);
    find(who)->seat->send_now(
      {frame_kind::give,
       what.request,
       write_header(collective_give{rendezvous_.number(), share}),
       {}});
  }
  members_.front().seat->wake();
}

// The NCCL transfer calls this with the lock held, since all calls of the
// transfer are made under the lock.
void collective_coordinator::summed(uint64_t number, bool done) {
  if (!step_ || step_->number != number)
    return;
  auto gone = std::ranges::any_of(step_->parts, [this](const auto& part) {
    const auto* from = find(part.first);
    return from == nullptr || from->gone;
  });
  payload mean{terms_.weights, step_->sum, step_->sum.get()};
  // Members that have left take no part in the step. A gradient that is not
  // finite would be refused alone; in a sum it would have all refused.
  if (!done || gone || !all_finite(mean))
    return give_up_step();
  step_->there = true;
  for (const auto& [who, what] : step_->parts) {
    auto* from = find(who);
    ++from->asked;
    from->seat->hand_in({frame_kind::push, what.request, what.header, mean});
  }
}

/// If the server does not have the pushes yet, they are sent over the stream;
/// if it has them, the answers are.
void collective_coordinator::give_up_step() {
  if (!step_)
    return;
  if (step_->there)
    return give_up_broadcast();
  auto gone = *std::exchange(step_, std::nullopt);
  for (const auto& [who, what] : gone.parts)
    if (auto* from = find(who))
      send_fetch(*from->seat, what.request);
}

void collective_coordinator::give_up_broadcast() {
  if (step_->taken)
    let_held_go();
  else
    step_->alone = true;
}

// -- what the lead asks and tells ---------------------------------------------

std::optional<gradient_sum>
collective_coordinator::find(const push_id& which, const payload& gradient) {
  lock guard{mutex_};
  if (!gradient)
    return std::nullopt;
  const auto* data = gradient.host_bytes().data();
  auto is_it = [&](const void_push& x) {
    return x.sum.get() == data && x.id == which;
  };
  if (std::ranges::any_of(void_, is_it))
    return gradient_sum{0, true, {}};
  if (!step_ || !step_->there || step_->taken || step_->sum.get() != data)
    return std::nullopt;
  gradient_sum out{step_->number, false, {}};
  for (const auto& [who, what] : step_->parts)
    out.pushes.push_back(what.id);
  return std::ranges::count(out.pushes, which) > 0 ? std::optional{out}
                                                   : std::nullopt;
}

void collective_coordinator::note_accepted(uint64_t number) {
  lock guard{mutex_};
  if (!step_ || step_->number != number)
    return;
  step_->taken = true;
  step_->sum.reset();
  if (step_->alone)
    step_.reset();
}

void collective_coordinator::give_up(uint64_t number) {
  lock guard{mutex_};
  if (!step_ || step_->number != number || step_->taken)
    return;
  auto gone = *std::exchange(step_, std::nullopt);
  for (const auto& [who, what] : gone.parts)
    if (auto* from = find(who)) {
      void_.push_back({from->seat, what.request, what.id, gone.sum});
      send_fetch(*from->seat, what.request);
    }
}

/// Whether this answers a push that did not count. Its worker has been told
/// already, so the answer is not sent.
bool collective_coordinator::swallows(const frame_line& who,
                                      const frame& message) {
  return message.kind == frame_kind::refusal &&
         std::erase_if(void_, [&](const void_push& x) {
           return x.seat == &who && x.request == message.request;
         }) > 0;
}

// The worker's path may live on: then the worker sends its own gradients.
void collective_coordinator::left(worker_id who, life_number life) {
  lock guard{mutex_};
  auto found = std::ranges::find_if(members_, [&](const member& x) {
    return x.who.worker == who && x.life == life && !x.gone;
  });
  if (found == members_.end())
    return;
  found->gone = true;
  if (step_ && !step_->there && step_->parts.contains(found->who))
    give_up_step();
  fetch_all();
  assemble_at_ = terms_.clock();
  members_.front().seat->wake();
}

// -- weights ------------------------------------------------------------------

bool collective_coordinator::keeps(const frame_line& who,
                                   const frame& message) {
  lock guard{mutex_};
  auto* to = find(who);
  if (to == nullptr)
    return false;
  if (to->asked > 0)
    --to->asked;
  if (swallows(who, message))
    return true;
  if (!step_ || !step_->taken)
    return false;
  auto part = step_->parts.find(to->who);
  if (part == step_->parts.end() || part->second.request != message.request)
    return false;
  if (!fits(*to, message)) {
    let_held_go();
    return false;
  }
  if (step_->held.empty()) {
    step_->held_since = terms_.clock();
    members_.front().seat->wake();
  }
  step_->held.emplace(to->who, message);
  if (step_->held.size() == step_->parts.size())
    spread();
  return true;
}

bool collective_coordinator::fits(const member& to,
                                  const frame& message) const {
  const auto& held = step_->held;
  auto open = rendezvous_.is_open(rendezvous_.number()) &&
              transfer_->takes(terms_.weights) && !held.contains(to.who);
  auto whole = message.kind == frame_kind::release && message.tensor &&
               message.tensor.shape() == terms_.weights;
  return open && whole &&
         (held.empty() || held.begin()->second.tensor.is_same(message.tensor));
}

void collective_coordinator::let_held_go() {
  auto gone = *std::exchange(step_, std::nullopt);
  for (const auto& [who, what] : gone.held)
    if (auto* to = find(who))
      to->seat->send_now(what);
}

void collective_coordinator::spread() {
  auto held = std::exchange(step_->held, {});
  step_.reset();
  for (auto& [who, what] : held)
    if (auto* to = find(who)) {
      to->seat->send_now(what, carriage::device);
      to->last = what;
    }
  transfer_->tell(held.begin()->second.tensor, {});
  members_.front().seat->wake();
}

void collective_coordinator::again(const frame_line& who, transfer_id request) {
  lock guard{mutex_};
  auto* from = find(who);
  if (from != nullptr && from->last && from->last->request == request)
    from->seat->send_now(*std::exchange(from->last, std::nullopt));
}

} // namespace troupe::transport
