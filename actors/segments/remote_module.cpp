#include "actors/segments/remote_module.hpp"

#include "actors/runtime/run_is_over.hpp"
#include "actors/runtime/tensor_payload.hpp"

#include <algorithm>
#include <string>
#include <utility>

namespace troupe {

namespace {

caf::error breach(const std::string& line) {
  return caf::make_error(errc::protocol_violation, line);
}

} // namespace

remote_module_state::remote_module_state(pointer self,
                                         remote_module_parts parts)
  : self_(self), parts_(std::move(parts)),
    gradients_(parts_.range.count, parts_.dtype, parts_.memory) {
  for (const auto& stage : parts_.segments)
    segments_ += stage ? 1 : 0;
  if (parts_.roster)
    parts_.roster->join(module_host_actor{self_});
}

remote_module_state::~remote_module_state() {
  for (const auto& [id, what] : contexts_)
    what.cancel->store(true);
  if (!parts_.roster)
    return;
  parts_.roster->closed(contexts_.size());
  parts_.roster->leave(self_->id());
}

module_host_actor::behavior_type remote_module_state::make_behavior() {
  self_->monitor(parts_.server);
  self_->set_down_handler([this](const caf::down_msg& down) {
    // Linked stages would stay if this actor ended without a reason.
    self_->quit(down.reason ? down.reason : caf::exit_reason::user_shutdown);
  });
  for (const auto& stage : parts_.segments)
    if (stage)
      self_->link_to(stage);
  return {
    [this](push_atom, const push_header& header, const payload& own) {
      return push(header, own);
    },
    [this](pull_atom, const pull_header& header) { return pull(header); },
    [this](watch_atom msg, const watch_request& which) {
      return self_->delegate(parts_.server, msg, which);
    },
    [this](score_atom msg, const score& found) {
      return self_->delegate(parts_.server, msg, found);
    },
    [this](forward_atom, const module_call& call) { return forward(call); },
    [this](backward_atom, const module_call& call) { return backward(call); },
    [this](cancel_atom, lease_id which) { close(which); },
    [this](fetch_atom, const context_part& place) { return read(place); },
    [this](ending_atom) {
      over_ = true;
      close_all();
    },
  };
}

// -- between the worker and the shard -----------------------------------------

template <class... Ts>
auto remote_module_state::ask_shard(Ts&&... message) -> weights_result {
  auto answer = self_->make_response_promise<release_header, payload>();
  self_->request(parts_.server, caf::infinite, std::forward<Ts>(message)...)
    .then(
      [this, answer](const release_header& next, const payload& weights) {
        pass_on(next, weights, answer);
      },
      [this, answer](const caf::error& why) { refuse(why, answer); });
  return answer;
}

auto remote_module_state::push(const push_header& header, const payload& own)
  -> weights_result {
  auto whole = whole_of(header, own);
  close(header.from);
  if (header.computed_on == version_)
    weights_ = {}; // The shard may step in place.
  return ask_shard(push_atom_v, header, std::move(whole));
}

// A push without a complete context goes on as it is: the shard refuses it as
// it refuses every gradient of another size.
payload remote_module_state::whole_of(const push_header& header,
                                      const payload& own) {
  auto found = contexts_.find(header.from);
  auto fits = own.shape().count == parts_.own && (own || parts_.own == 0);
  if (found == contexts_.end() || !fits || !is_complete(found->second) ||
      found->second.of != header.computed_on)
    return own;
  auto gradient = std::move(found->second.gradient);
  if (parts_.own > 0)
    gradient
      .narrow(0, static_cast<int64_t>(parts_.range.count - parts_.own),
              static_cast<int64_t>(parts_.own))
      .copy_(to_tensor(own));
  return to_payload(std::move(gradient));
}

auto remote_module_state::pull(const pull_header& header) -> weights_result {
  close(header.abandoned);
  return ask_shard(pull_atom_v, header);
}

void remote_module_state::pass_on(const release_header& header,
                                  const payload& weights, weights_promise to) {
  weights_ = weights;
  version_ = header.weights;
  to.deliver(header,
             weights.part(weights.shape().count - parts_.own, parts_.own));
}

void remote_module_state::refuse(const caf::error& why, weights_promise to) {
  if (why == errc::shutting_down) // No push can be of use any more.
    close_all();
  to.deliver(why);
}

// -- contexts -----------------------------------------------------------------

auto remote_module_state::forward(const module_call& call) -> module_result {
  const auto* stage = stage_of(call);
  if (stage == nullptr)
    return breach("segment " + std::to_string(call.segment) +
                  " of the network is not here");
  if (call.first == 0)
    if (auto err = open(call))
      return err;
  return self_->delegate(*stage, forward_atom_v, call);
}

// The last backward pass of the last segment completes the context, as soon as
// it has answered.
auto remote_module_state::backward(const module_call& call) -> module_result {
  const auto* stage = stage_of(call);
  if (stage == nullptr)
    return module_answer{.cancelled = true};
  if (!call.last)
    return self_->delegate(*stage, backward_atom_v, call);
  auto promise = self_->make_response_promise<module_answer>();
  self_->request(*stage, caf::infinite, backward_atom_v, call)
    .then(
      [this, promise, id = call.from.id,
       segment = call.segment](module_answer& answer) mutable {
        auto found = contexts_.find(id);
        if (found == contexts_.end()) {
          answer.cancelled = true;
        } else if (!answer.cancelled) {
          ++found->second.finished;
          auto& statistics = found->second.statistics[segment];
          if (statistics.defined())
            answer.statistics = to_payload(statistics);
        }
        promise.deliver(std::move(answer));
      },
      [promise](const caf::error& why) mutable { promise.deliver(why); });
  return promise;
}

// A copy of the gradient, since the server may write to what is pushed.
auto remote_module_state::read(const context_part& place) const
  -> module_result {
  auto found = contexts_.find(place.from);
  if (found == contexts_.end())
    return module_answer{.cancelled = true};
  const auto& at = found->second;
  const auto& [first, count] = parts_.range;
  if ((place.gradient && !is_complete(at)) ||
      place.count > parts_.most_elements || place.first < first ||
      place.count > count || place.first - first > count - place.count)
    return breach("numbers that the context does not have");
  auto from = place.first - first;
  auto size = static_cast<int64_t>(place.count);
  auto part =
    place.gradient
      ? to_payload(
          at.gradient.narrow(0, static_cast<int64_t>(from), size).clone())
      : at.weights.part(from, place.count);
  return module_answer{.outputs = {std::move(part), {size}}};
}

caf::error remote_module_state::open(const module_call& call) {
  if (over_)
    return run_is_over();
  auto found = contexts_.find(call.from.id);
  if (found == contexts_.end()) {
    if (!weights_ || call.weights != version_)
      return breach("version " + to_string(call.weights) +
                    " is not kept for this worker");
    if (contexts_.size() == most_contexts)
      return breach("the worker has too many batches in hand");
    if (call.from.count > parts_.most_samples)
      return breach("a batch is larger than any lease");
    context fresh;
    fresh.of = version_;
    fresh.weights = weights_;
    fresh.gradient = gradients_.take_tensor();
    fresh.cancel = std::make_shared<std::atomic<bool>>(false);
    found = contexts_.emplace(call.from.id, std::move(fresh)).first;
    if (parts_.roster)
      parts_.roster->opened();
  }
  auto& at = found->second;
  auto [statistics, is_new] =
    at.statistics.emplace(call.segment, to_tensor(call.statistics));
  if (!is_new)
    return breach("a segment of a batch begins twice");
  if (statistics->second.defined())
    statistics->second = statistics->second.clone();
  self_->send(
    *stage_of(call), begin_atom_v,
    std::make_shared<stage_context>(stage_context{
      call.from, at.weights, at.gradient, statistics->second, at.cancel}));
  return {};
}

void remote_module_state::close(lease_id which) {
  auto gone = contexts_.extract(which);
  if (!gone)
    return;
  if (parts_.roster)
    parts_.roster->closed();
  if (is_complete(gone.mapped()))
    return;
  gone.mapped().cancel->store(true);
  for (const auto& [segment, statistics] : gone.mapped().statistics)
    self_->send(parts_.segments[segment], cancel_atom_v, which);
}

void remote_module_state::close_all() {
  while (!contexts_.empty())
    close(contexts_.begin()->first);
}

bool remote_module_state::is_complete(const context& batch) const {
  return batch.finished == segments_;
}

const stage_actor*
remote_module_state::stage_of(const module_call& call) const {
  if (call.segment >= parts_.segments.size() || !parts_.segments[call.segment])
    return nullptr;
  return &parts_.segments[call.segment];
}

} // namespace troupe
