#include "messages/transport/cast_root.hpp"

#include "messages/types.hpp"

#include <algorithm>
#include <chrono>
#include <limits>
#include <utility>

namespace troupe::transport {

namespace {

/// s between two looks at what is under way, ...
constexpr double pace = 50e-6;

/// ... at communicators that begin or end, ...
constexpr double slow_pace = 5e-3;

/// ... and at one that rests, whose errors nobody else notices.
constexpr double idle_pace = .5;

double steady_seconds() {
  std::chrono::duration<double> since =
    std::chrono::steady_clock::now().time_since_epoch();
  return since.count();
}

} // namespace

cast_root::cast_root(cast_root_terms terms)
  : terms_(std::move(terms)), sums_(terms_.weights.bytes()),
    rendezvous_(terms_.rules) {
  if (!terms_.clock)
    terms_.clock = steady_seconds;
  if (!terms_.say)
    terms_.say = [](const std::string&) {
    };
}

// What is not done is told, while all of this is still there.
cast_root::~cast_root() {
  members_.clear();
  step_.reset();
  ferry_.reset();
  ending_.clear();
}

// -- members ------------------------------------------------------------------

cast_root::member* cast_root::find(const cast_seat& who) {
  auto found = std::ranges::find(members_, &who, &member::seat);
  return found == members_.end() ? nullptr : &*found;
}

cast_root::member* cast_root::find(const nccl::attendee& who) {
  auto found = std::ranges::find(members_, who, &member::who);
  return found == members_.end() ? nullptr : &*found;
}

// A worker that comes over a new path is another one here.
void cast_root::enter(cast_seat& who, const cast_attendance& as) {
  lock guard{mutex_};
  if (find(who))
    return;
  members_.push_back({&who,
                      {as.worker, incarnation{++entries_}},
                      0,
                      std::nullopt,
                      std::nullopt});
  // Those who have met already need not end for one of many newcomers.
  assemble_at_ = terms_.clock() + terms_.settling;
  members_.front().seat->wake();
}

void cast_root::leave(const cast_seat& who) {
  lock guard{mutex_};
  remove(who);
}

void cast_root::remove(const cast_seat& who) {
  if (std::erase_if(members_,
                    [&](const member& x) { return x.seat == &who; }) == 0)
    return;
  assemble_at_ = terms_.clock();
  if (!members_.empty())
    members_.front().seat->wake();
}

void cast_root::answered(const cast_seat& who, const cast_answer& what) {
  lock guard{mutex_};
  if (const auto* from = find(who)) {
    answers_.emplace_back(from->who, what);
    members_.front().seat->wake();
  }
}

// -- gradients ----------------------------------------------------------------

void cast_root::asked(const cast_seat& who) {
  lock guard{mutex_};
  auto* from = find(who);
  if (from == nullptr)
    return;
  ++from->asked;
  from->last.reset();
  decide();
}

void cast_root::offered(const cast_seat& who, transfer_id request,
                        caf::byte_buffer header,
                        const payload_shape& gradient) {
  lock guard{mutex_};
  auto* from = find(who);
  if (from == nullptr)
    return;
  from->offered = offer{request, std::move(header), gradient, terms_.clock()};
  members_.front().seat->wake();
  from->last.reset();
  decide();
}

void cast_root::decide() {
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
    if (!it->offered && it->asked == 0)
      return; // Computes.
    all &= it->offered && it->offered->shape == terms_.weights;
  }
  // Nobody besides them may be waited for.
  auto outsider = std::ranges::any_of(members_, [&](const member& x) {
    return x.offered && !std::ranges::count(rendezvous_.members(), x.who);
  });
  if (!all || outsider || step_ || !ferry_->takes(terms_.weights))
    return fetch_all();
  begin_step();
}

void cast_root::fetch_all() {
  for (auto& one : members_)
    if (auto what = std::exchange(one.offered, std::nullopt))
      one.seat->fetch(what->request);
}

std::optional<double> cast_root::oldest_offer() const {
  std::optional<double> out;
  for (const auto& one : members_)
    if (one.offered && (!out || one.offered->since < *out))
      out = one.offered->since;
  return out;
}

void cast_root::begin_step() {
  step next;
  next.number = ++steps_;
  uint64_t samples = 0;
  for (auto& one : members_)
    if (auto what = std::exchange(one.offered, std::nullopt)) {
      samples += read_header<push_header>(what->header).samples;
      next.parts.emplace(one.who, std::move(*what));
    }
  auto sum = sums_.take();
  std::span target{sum.get(), static_cast<size_t>(terms_.weights.bytes())};
  next.sum = sum;
  step_ = std::move(next);
  // The memory is held until the ferry has let go of it, whatever happens here.
  ferry_->sum(target, terms_.weights.type,
              [this, number = steps_, sum = std::move(sum)](bool done) {
                summed(number, done);
              });
  if (!step_)
    return; // It failed at once.
  for (const auto& [who, what] : step_->parts) {
    auto own = read_header<push_header>(what.header).samples;
    auto share = samples == 0
                   ? 0.
                   : static_cast<double>(own) / static_cast<double>(samples);
    find(who)->seat->give(what.request, {rendezvous_.number(), share});
  }
  members_.front().seat->wake();
}

// Called by the ferry, with the lock held: it is asked and polled with it.
void cast_root::summed(uint64_t number, bool done) {
  if (!step_ || step_->number != number)
    return;
  auto gone = std::ranges::any_of(step_->parts, [this](const auto& part) {
    return find(part.first) == nullptr;
  });
  if (!done || gone) // Whoever is gone has no part in the step.
    return give_up_step();
  payload mean{terms_.weights, step_->sum, step_->sum.get()};
  step_->sum.reset();
  step_->there = true;
  for (const auto& [who, what] : step_->parts) {
    auto* from = find(who);
    ++from->asked;
    from->seat->hand_over({frame_kind::push, what.request, what.header, mean});
  }
}

/// What the server does not have yet takes the stream.
void cast_root::give_up_step() {
  if (!step_)
    return;
  if (step_->there)
    return let_held_go();
  auto gone = *std::exchange(step_, std::nullopt);
  for (const auto& [who, what] : gone.parts)
    if (auto* from = find(who))
      from->seat->fetch(what.request);
}

// -- weights ------------------------------------------------------------------

bool cast_root::keeps(const cast_seat& who, const cast_reply& what) {
  lock guard{mutex_};
  auto* to = find(who);
  if (to == nullptr)
    return false;
  if (to->asked > 0)
    --to->asked;
  if (!step_ || !step_->there)
    return false;
  auto part = step_->parts.find(to->who);
  if (part == step_->parts.end() || part->second.request != what.request)
    return false;
  if (!fits(*to, what)) {
    let_held_go();
    return false;
  }
  if (step_->held.empty()) {
    step_->held_since = terms_.clock();
    members_.front().seat->wake();
  }
  step_->held.emplace(to->who, what);
  if (step_->held.size() == step_->parts.size())
    spread();
  return true;
}

bool cast_root::fits(const member& to, const cast_reply& what) const {
  const auto& held = step_->held;
  auto open = rendezvous_.is_open(rendezvous_.number()) &&
              ferry_->takes(terms_.weights) && !held.contains(to.who);
  auto whole = what.kind == frame_kind::release && what.tensor &&
               what.tensor.shape() == terms_.weights;
  return open && whole &&
         (held.empty() || held.begin()->second.tensor.bytes().data() ==
                            what.tensor.bytes().data());
}

void cast_root::let_held_go() {
  auto gone = *std::exchange(step_, std::nullopt);
  for (const auto& [who, what] : gone.held)
    if (auto* to = find(who))
      to->seat->reply(what, carriage::none);
}

void cast_root::spread() {
  auto held = std::exchange(step_->held, {});
  step_.reset();
  for (auto& [who, what] : held)
    if (auto* to = find(who)) {
      to->seat->reply(what, carriage::device);
      to->last = what;
    }
  ferry_->tell(held.begin()->second.tensor, {});
  members_.front().seat->wake();
}

void cast_root::again(const cast_seat& who, transfer_id request) {
  lock guard{mutex_};
  auto* from = find(who);
  if (from != nullptr && from->last && from->last->request == request)
    from->seat->reply(*std::exchange(from->last, std::nullopt), carriage::none);
}

// -- communicators ------------------------------------------------------------

bool cast_root::is_open() const {
  lock guard{mutex_};
  return rendezvous_.is_open(rendezvous_.number());
}

std::optional<double> cast_root::poll(const cast_seat& who, bool closed) {
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
  if (closed && members_.empty() && ending_.empty() && !ferry_)
    return std::nullopt;
  return next;
}

void cast_root::move_on(double now) {
  if (assemble_at_ && now >= *assemble_at_) {
    assemble_at_.reset();
    std::vector<nccl::attendee> all;
    for (const auto& one : members_)
      if (!one.left_out)
        all.push_back(one.who);
    carry_out(rendezvous_.assemble(all, now), now);
  }
  take_answers(now);
  look_at_communicator(now);
  carry_out(rendezvous_.due(now), now);
  std::erase_if(ending_, [now](const auto& one) { return !one->poll(now); });
  if (step_ && !step_->held.empty() &&
      now >= step_->held_since + terms_.holding)
    let_held_go();
  if (auto since = oldest_offer(); since && now >= *since + terms_.waiting)
    leave_out_silent(now);
}

// It may be stopped, or much slower than the others, or we do not know why.
void cast_root::leave_out_silent(double now) {
  for (const auto& who : rendezvous_.members())
    if (auto* one = find(who); one && !one->offered && one->asked == 0) {
      one->left_out = true;
      terms_.say("nccl         worker " + to_string(who.worker) +
                 " takes the stream from now on: the others waited in vain for "
                 "its gradient");
    }
  fetch_all();
  assemble_at_ = now;
}

void cast_root::take_answers(double now) {
  auto all = std::exchange(answers_, {});
  for (const auto& [who, what] : all) {
    switch (what.stage) {
    case cast_stage::accepted:
      rendezvous_.accepted(what.number, who);
      break;
    case cast_stage::declined:
      carry_out(rendezvous_.declined(what.number, who, what.why, now), now);
      break;
    case cast_stage::ready:
      carry_out(rendezvous_.ready(what.number, who, now), now);
      break;
    case cast_stage::broken:
      carry_out(rendezvous_.broken(
                  what.number,
                  "worker " + to_string(who.worker) + ": " + what.why, now),
                now);
      break;
    }
  }
}

void cast_root::look_at_communicator(double now) {
  if (!ferry_)
    return;
  ferry_is_busy_ = ferry_->poll(now);
  if (auto why = ferry_->failure(); !why.empty())
    return carry_out(rendezvous_.broken(rendezvous_.number(), why, now), now);
  if (!root_is_ready_ && ferry_->takes(terms_.weights)) {
    root_is_ready_ = true;
    carry_out(rendezvous_.ready(rendezvous_.number(), std::nullopt, now), now);
  }
}

/// When to look again.
std::optional<double> cast_root::next_look(double now) const {
  auto out = std::numeric_limits<double>::infinity();
  auto by = [&out](double seconds) {
    out = std::min(out, std::max(seconds, pace));
  };
  if (ferry_)
    by(!root_is_ready_ ? slow_pace : ferry_is_busy_ ? pace : idle_pace);
  if (!ending_.empty())
    by(slow_pace);
  if (!answers_.empty())
    by(pace);
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

void cast_root::carry_out(nccl::orders all, double now) {
  for (const auto& one : all)
    std::visit([&](const auto& what) { carry_out(what, now); }, one);
}

void cast_root::carry_out(const nccl::make_id& what, double now) {
  nccl::abi::unique_id id;
  auto code = terms_.library->call().get_unique_id(&id);
  if (code == nccl::abi::result::success)
    carry_out(rendezvous_.identified(what.number, nccl::to_bytes(id), now),
              now);
  else
    carry_out(
      rendezvous_.broken(
        what.number, "NCCL gives no id: " + terms_.library->explain(code), now),
      now);
}

void cast_root::carry_out(const nccl::invite& what, double) {
  if (auto* to = find(what.to))
    to->seat->call({what.number, what.rank, what.size, what.id});
}

void cast_root::carry_out(const nccl::begin_root& what, double now) {
  nccl::ferry_terms terms;
  terms.id = what.id;
  terms.rank = nccl::ferry::root;
  terms.size = static_cast<int>(what.size);
  terms.device = terms_.device;
  terms.largest = terms_.weights;
  terms.limits = terms_.limits;
  terms.transfer = terms_.transfer;
  ferry_ = std::make_shared<nccl::ferry>(terms_.library, terms, now);
  root_is_ready_ = false;
}

void cast_root::carry_out(const nccl::announce& what, double) {
  const auto& all = rendezvous_.members();
  if (what.to == all.back())
    terms_.say("nccl         " + std::to_string(all.size()) +
               " workers have met: their gradients are added up on the "
               "devices");
  if (auto* to = find(what.to))
    to->seat->open({what.number});
}

void cast_root::carry_out(const nccl::dissolve& what, double) {
  if (auto* to = find(what.to))
    to->seat->over({what.number, what.why});
}

// What was under way takes the stream.
void cast_root::carry_out(const nccl::end_root& what, double now) {
  if (ferry_) {
    terms_.say("nccl         over for now, tensors take the stream: " +
               what.why);
    ferry_->stop(what.why, now);
    ending_.push_back(std::exchange(ferry_, nullptr));
  }
  give_up_step();
  fetch_all();
}

void cast_root::carry_out(const nccl::leave_out& what, double) {
  terms_.say("nccl         worker " + to_string(what.who.worker) +
             " takes the stream from now on: " + what.why);
}

void cast_root::carry_out(const nccl::switch_off& what, double) {
  terms_.say("nccl         off, all tensors take the stream: " + what.why);
}

} // namespace troupe::transport
