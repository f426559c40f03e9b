#include "actors/links/joined_link.hpp"

#include <cstring>
#include <string>
#include <utility>

namespace troupe {

namespace {

payload_shape shape_of(const joined_link_parts& of) {
  payload_shape out{of.type, 0};
  for (const auto& part : of.parts)
    out.count += part.count;
  return out;
}

} // namespace

joined_link_state::joined_link_state(pointer self, joined_link_parts parts)
  : self_(self), parts_(std::move(parts)), whole_(shape_of(parts_)),
    memory_(whole_.bytes()) {
  // nop
}

joined_link_state::~joined_link_state() {
  for (const auto& part : parts_.parts)
    caf::anon_send_exit(part.link, caf::exit_reason::user_shutdown);
}

readable_module_actor::behavior_type joined_link_state::make_behavior() {
  for (const auto& part : parts_.parts)
    self_->monitor(part.link);
  self_->set_down_handler([this](const caf::down_msg& down) {
    while (!open_.empty())
      refuse(open_.begin()->first,
             caf::make_error(errc::peer_lost,
                             std::string{"connection to a parameter server "
                                         "shard lost"}));
    self_->quit(down.reason);
  });
  const auto& lead = parts_.parts.back().link;
  return {
    [this](push_atom, const push_header& header, const payload& gradient) {
      return push(header, gradient);
    },
    [this](pull_atom, const pull_header& header) { return pull(header); },
    [this, lead](watch_atom, const watch_request& request) {
      return self_->delegate(lead, watch_atom_v, request);
    },
    [this, lead](score_atom, const score& found) {
      self_->send(lead, score_atom_v, found);
    },
    [this](forward_atom msg, const module_call& call) {
      return pass(msg, call);
    },
    [this](backward_atom msg, const module_call& call) {
      return pass(msg, call);
    },
    [this](fetch_atom msg, const context_part& part) {
      return pass(msg, part);
    },
    [this](cancel_atom msg, lease_id which) {
      for (const auto& part : parts_.parts)
        self_->send(caf::actor_cast<readable_module_actor>(part.link), msg,
                    which);
    },
  };
}

// -- requests -----------------------------------------------------------------

auto joined_link_state::push(const push_header& header, const payload& gradient)
  -> weights_result {
  auto answer = self_->make_response_promise<release_header, payload>();
  auto number = open(answer);
  auto offered = takes(gradient);
  if (offered)
    parts_.exchange.exchange->offer(header.id, gradient);
  uint64_t first = 0;
  for (size_t k = 0; k < parts_.parts.size(); ++k) {
    auto count = count_in(k, fragment_);
    ask(number, k, push_atom_v, header,
        offered ? payload{{parts_.type, count}, nullptr, nullptr}
                : gradient.part(first, count));
    first += count;
  }
  return answer;
}

// One that is not finite goes to the shards, which refuse it: it must not spoil
// a sum.
bool joined_link_state::takes(const payload& gradient) const {
  return parts_.exchange && gradient.device() != nullptr &&
         gradient.shape() == whole_ && gradient.finite().value_or(false) &&
         parts_.exchange.exchange->is_open();
}

auto joined_link_state::pull(const pull_header& header) -> weights_result {
  auto answer = self_->make_response_promise<release_header, payload>();
  auto number = open(answer);
  for (size_t k = 0; k < parts_.parts.size(); ++k)
    ask(number, k, pull_atom_v, header);
  return answer;
}

uint64_t joined_link_state::open(const weights_promise& asks) {
  auto count = parts_.parts.size();
  open_.emplace(++requests_,
                open_request{asks, std::vector<payload>(count), {}, {}, count});
  return requests_;
}

template <class... Ts>
void joined_link_state::ask(uint64_t number, size_t part,
                            const Ts&... request) {
  self_->request(parts_.parts[part].link, caf::infinite, request...)
    .then(
      [this, number, part](const release_header& header,
                           const payload& weights) {
        collect_part(number, part, header, weights);
      },
      [this, number](const caf::error& why) { refuse(number, why); });
}

// -- modules ------------------------------------------------------------------

// The lead, of rank 0, is the last.
template <class Atom, class Request>
caf::result<module_answer> joined_link_state::pass(Atom verb,
                                                   const Request& request) {
  auto shards = parts_.parts.size();
  if (request.server >= shards)
    return caf::make_error(errc::protocol_violation,
                           "there is no shard of rank " +
                             std::to_string(request.server));
  const auto& part =
    parts_.parts[request.server == 0 ? shards - 1 : request.server - 1];
  return self_->delegate(caf::actor_cast<readable_module_actor>(part.link),
                         verb, request);
}

// -- answers ------------------------------------------------------------------

void joined_link_state::collect_part(uint64_t number, size_t part,
                                     const release_header& header,
                                     const payload& weights) {
  auto found = open_.find(number);
  if (found == open_.end()) // Another part was refused.
    return;
  auto& what = found->second;
  if (what.of.value_or(header.weights) != header.weights)
    return refuse(number, caf::make_error(errc::protocol_violation,
                                          std::string{"parts of two versions "
                                                      "in one answer"}));
  what.of = header.weights;
  what.answers[part] = weights;
  if (part + 1 == parts_.parts.size())
    what.header = header;
  if (--what.missing == 0)
    join(std::move(open_.extract(found).mapped()));
}

void joined_link_state::join(open_request request) {
  const auto& answers = request.answers;
  if (answers.back().shape() == whole_) // Modules keep the other parts.
    return deliver(request, answers.back());
  if (answers.back().is_absent())
    return await_gathered(std::move(request));
  auto fragment = fragment_in(request.header);
  payload_shape shape{parts_.type, 0};
  for (size_t k = 0; k < answers.size(); ++k) {
    if (answers[k].shape().count != count_in(k, fragment))
      return request.asks.deliver(
        caf::make_error(errc::protocol_violation,
                        std::string{"a part of weights of another size"}));
    shape.count += answers[k].shape().count;
  }
  if (auto view = fragment ? std::nullopt : views_.join(whole_, answers))
    return deliver(request, *view);
  auto memory = memory_.take_block();
  auto* target = memory.get();
  for (const auto& part : answers) {
    auto bytes = part.host_bytes();
    std::memcpy(target, bytes.data(), bytes.size());
    target += bytes.size();
  }
  auto* data = memory.get();
  deliver(request, payload{shape, std::move(memory), data});
}

void joined_link_state::deliver(const open_request& request,
                                const payload& weights) {
  fragment_ = request.header.fragment;
  auto asks = request.asks;
  asks.deliver(request.header, weights);
}

/// The fragment that an answer has; nothing: it has all of the weights.
std::optional<uint32_t>
joined_link_state::fragment_in(const release_header& header) const {
  auto count = static_cast<uint32_t>(parts_.parts.back().fragments.size());
  if (count == 0 || !header.goes_on)
    return std::nullopt;
  return (header.fragment + count - 1) % count;
}

/// The elements of a part that are in it; without one, all.
uint64_t joined_link_state::count_in(size_t part,
                                     std::optional<uint32_t> fragment) const {
  const auto& [link, all, fragments] = parts_.parts[part];
  return fragment && !fragments.empty()
           ? fragments[*fragment % fragments.size()]
           : all;
}

// All shards have made the same step, and give its weights to all nodes.
void joined_link_state::await_gathered(open_request request) {
  auto of = request.header.weights;
  if (!parts_.exchange)
    return request.asks.deliver(caf::make_error(
      errc::protocol_violation, std::string{"weights without numbers"}));
  self_->request(parts_.exchange.front, caf::infinite, fetch_atom_v, of)
    .then(
      [this, request](const payload& weights) { deliver(request, weights); },
      [request](const caf::error& why) mutable { request.asks.deliver(why); });
}

// One refused part is enough: the worker repeats the request to all.
void joined_link_state::refuse(uint64_t number, const caf::error& why) {
  if (auto found = open_.extract(number))
    found.mapped().asks.deliver(why);
}

} // namespace troupe
