#include "actors/server/worker_requests.hpp"

#include "actors/runtime/run_is_over.hpp"

#include <array>
#include <cmath>
#include <cstdio>
#include <utility>

namespace troupe {

namespace {

/// For people.
std::string rounded(double x) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.3g", x);
  return text.data();
}

std::string reason_of(const arrived_push& push, errc why) {
  if (why == errc::outlier)
    return "gradient has a norm of " + rounded(push.norm->norm) +
           ", and the median of other workers' is " +
           rounded(push.norm->median.value_or(0));
  if (why == errc::wrong_size)
    return "gradient does not have the model's size";
  if (why == errc::protocol_violation)
    return "gradient is not of a lease of this worker";
  if (why == errc::duplicate)
    return "gradient has arrived at a shard before";
  return "gradient holds NaN or infinite numbers";
}

} // namespace

worker_requests::worker_requests(lead& of, worker_requests_parts parts)
  : lead_(of), parts_(std::move(parts)) {
  // nop
}

// -- requests -----------------------------------------------------------------

auto worker_requests::push(const push_header& header, const payload& gradient)
  -> weights_result {
  auto asks = parts_.self->make_response_promise<release_header, payload>();
  if (must_wait())
    waiting_.push_back([=, this] { accept(header, gradient, asks); });
  else
    accept(header, gradient, asks);
  return asks;
}

auto worker_requests::pull(const pull_header& header) -> weights_result {
  auto asks = parts_.self->make_response_promise<release_header, payload>();
  if (must_wait())
    waiting_.push_back([=, this] { accept(header, asks); });
  else
    accept(header, asks);
  return asks;
}

// While the recorder cannot write, requests must wait, since notes would pile
// up otherwise.
bool worker_requests::is_held_up() const {
  return parts_.notes->is_full() || lead_.makes_steps();
}

bool worker_requests::must_wait() const {
  return !closed_ && (is_held_up() || !waiting_.empty());
}

void worker_requests::proceed() {
  parts_.notes->acknowledge();
  go_on();
}

void worker_requests::go_on() {
  while (!waiting_.empty() && !is_held_up()) {
    auto next = std::move(waiting_.front());
    waiting_.pop_front();
    next();
  }
}

void worker_requests::accept(const push_header& header, const payload& gradient,
                             weights_promise asks) {
  request_id id{header.id.worker, header.id.life, header.request};
  if (auto err = objection(header)) {
    // Names no push for a duplicate: the first one may be held for a step.
    parts_.shards->refuse(id, err == errc::duplicate ? push_id{} : header.id);
    return asks.deliver(err);
  }
  auto push = look_up(header, gradient);
  if (auto why = check(push); why != errc::none) {
    parts_.shards->refuse(id, header.id);
    return asks.deliver(refuse(push, why));
  }
  hold(id, asks, push.gradient.is_absent());
  lead_.attempt([&] { look_into(id, std::move(push)); });
}

// A GPU that fails here ends the run.
void worker_requests::look_into(const request_id& id, arrived_push push) {
  gradient_facts facts;
  if (push.gradient) {
    push.gradient = parts_.model->place(push.gradient);
    facts = parts_.model->look_at(push.gradient, push.fragment);
  }
  auto own = facts.is_sound ? errc::none : errc::not_finite;
  if (!parts_.shards->any())
    return complete(std::move(push), own, facts.squares);
  parts_.shards->expect(id, push.header.id, own,
                        [this, push, squares = std::move(facts.squares)](
                          errc why, const models::exact_sum& others) mutable {
                          squares.add(others.parts());
                          complete(push, why, squares);
                        });
}

// All shards have their part, and it is known whether one has refused it.
void worker_requests::complete(arrived_push push, errc refused,
                               const models::exact_sum& squares) {
  if (refused == errc::none && parts_.scheduler->watches_norms())
    refused = judge(push, squares);
  if (refused == errc::none)
    return lead_.push_arrived(push);
  auto why = refuse(push, refused);
  const auto& header = push.header;
  auto& who = members_.at(header.id.worker);
  if (who.request == header.request) // Else it has asked anew.
    if (auto asks = std::exchange(who.asks, std::nullopt))
      asks->deliver(why);
  parts_.shards->drop({header.id});
}

// A replay takes the norm of the run, since a gradient that was refused is not
// computed again.
errc worker_requests::judge(arrived_push& push,
                            const models::exact_sum& squares) {
  auto norm =
    parts_.recorded_norm ? parts_.recorded_norm() : std::sqrt(squares.value());
  push.norm = parts_.scheduler->judge_norm(push.header.id.worker, norm,
                                           push.header.samples);
  return push.norm->is_outlier ? errc::outlier : errc::none;
}

void worker_requests::accept(const pull_header& header, weights_promise asks) {
  request_id id{header.worker, header.life, header.request};
  push_id no_gradient{header.worker, header.life, sequence{0}};
  if (auto err = unwelcome(header.worker, header.life, header.server)) {
    parts_.shards->refuse(id, no_gradient);
    return asks.deliver(err);
  }
  hold(id, asks);
  if (!parts_.shards->any())
    return lead_.pull_arrived(header);
  parts_.shards->expect(id, no_gradient, errc::none,
                        [this, header](errc, const models::exact_sum&) {
                          lead_.pull_arrived(header);
                        });
}

// -- checks -------------------------------------------------------------------

caf::error worker_requests::objection(const push_header& header) {
  if (auto err = unwelcome(header.id.worker, header.id.life, header.server))
    return err;
  switch (parts_.scheduler->admit(header.id)) {
  case cores::freshness::fresh:
    return {};
  case cores::freshness::stale_incarnation:
    return caf::make_error(errc::stale_incarnation,
                           "gradient of an earlier life of worker " +
                             to_string(header.id.worker));
  default:
    return caf::make_error(errc::duplicate, "gradient " + to_string(header.id) +
                                              " has arrived before");
  }
}

caf::error worker_requests::unwelcome(worker_id who, life_number life,
                                      life_number server) const {
  if (closed_)
    return run_is_over();
  switch (parts_.scheduler->look_at(who, life, server)) {
  case cores::standing::welcome:
    return {};
  case cores::standing::earlier_server:
    return caf::make_error(errc::stale_incarnation,
                           std::string{"meant for an earlier life of the "
                                       "parameter server"});
  default:
    return caf::make_error(errc::unknown_member, "worker " + to_string(who) +
                                                   " is not in the cluster");
  }
}

arrived_push worker_requests::look_up(const push_header& header,
                                      const payload& gradient) const {
  arrived_push out{header, gradient, std::nullopt};
  const auto& who = header.id.worker;
  out.fragment = parts_.scheduler->fragment_of(who);
  auto ids = header.leases();
  if (!parts_.scheduler->holds(who, ids, header.samples))
    return out;
  auto& from = out.from.emplace();
  for (auto id : ids)
    if (const auto* found = parts_.scheduler->find(who, id))
      from.push_back(*found);
  return out;
}

// Checks everything except the numbers. A gradient for another worker's samples
// would count them twice; of one with the wrong size, or that is offered, only
// the shape has been sent.
errc worker_requests::check(const arrived_push& push) const {
  if (!push.from)
    return errc::protocol_violation;
  const auto& gradient = push.gradient;
  auto here = !gradient.is_absent() || parts_.takes_offers;
  return here && parts_.model->fits(gradient, push.fragment) ? errc::none
                                                             : errc::wrong_size;
}

caf::error worker_requests::refuse(const arrived_push& push, errc why) {
  auto reason = reason_of(push, why);
  lead_.push_refused(push, why, reason);
  return caf::make_error(why, "worker " + to_string(push.header.id.worker) +
                                ": " + reason);
}

// The answer comes later. A worker has one request at a time; an earlier one
// that is still open belongs to a lost connection.
void worker_requests::hold(const request_id& id, weights_promise asks,
                           bool offered) {
  auto& who = members_.at(id.worker);
  who.asks = std::move(asks);
  who.request = id.number;
  who.offered = offered;
}

// -- members ------------------------------------------------------------------

void worker_requests::enlist(worker_id who, life_number life,
                             const worker_actor& handle) {
  members_[who] = member{life, handle, std::nullopt, sequence{0}, sequence{0}};
}

void worker_requests::leave(worker_id who) {
  left_ = std::move(members_.at(who).asks);
  members_.erase(who);
}

void worker_requests::answer_left(const std::string& reason) {
  if (auto asks = std::exchange(left_, std::nullopt))
    asks->deliver(caf::make_error(errc::unknown_member, reason));
}

void worker_requests::ask_steps(
  worker_id who, std::function<void(life_number, uint64_t)> then) {
  constexpr double patience = 5; // s
  auto found = members_.find(who);
  if (found == members_.end() || !found->second.handle)
    return;
  parts_.self->request(found->second.handle, to_timespan(patience), ping_atom_v)
    .then([life = found->second.life,
           then = std::move(then)](uint64_t steps) { then(life, steps); },
          [](const caf::error&) {
            // Its silence is noticed.
          });
}

void worker_requests::note_settled(const push_id& id, bool applied) {
  auto found = members_.find(id.worker);
  if (found == members_.end() || found->second.life != id.life)
    return;
  auto& who = found->second;
  who.settled = id.seq;
  if (applied)
    who.applied = id.seq;
}

std::vector<push_id> worker_requests::applied() const {
  std::vector<push_id> out;
  for (const auto& [rank, who] : members_)
    if (who.applied.value > 0)
      out.push_back({rank, who.life, who.applied});
  return out;
}

std::vector<served_worker> worker_requests::all() const {
  std::vector<served_worker> out;
  for (const auto& [rank, who] : members_)
    out.push_back({who.handle, who.settled});
  return out;
}

// -- answers ------------------------------------------------------------------

void worker_requests::order_release(worker_id who,
                                    const release_header& header) {
  const auto& waiting = members_.at(who);
  if (waiting.asks)
    parts_.shards->release({who, waiting.life, waiting.request}, header);
}

void worker_requests::release(worker_id who, const release_header& header,
                              const payload& weights, bool gathered) {
  auto& its = members_.at(who);
  if (auto promise = std::exchange(its.asks, std::nullopt))
    promise->deliver(header, gathered && its.offered
                               ? payload{weights.shape(), nullptr, nullptr}
                               : weights);
}

void worker_requests::cancel(worker_id who) {
  parts_.self->send(members_.at(who).handle, cancel_atom_v,
                    parts_.scheduler->current());
}

void worker_requests::close() {
  closed_ = true;
  for (auto& [who, state] : members_)
    if (auto asks = std::exchange(state.asks, std::nullopt))
      asks->deliver(run_is_over());
  for (auto& next : std::exchange(waiting_, {}))
    next();
}

} // namespace troupe
