#include "actors/events/node_traffic.hpp"

#include <algorithm>
#include <utility>

namespace troupe {

node_traffic::node_traffic(node_bytes weights, uint32_t workers)
  : weights_(std::move(weights)), workers_(workers) {
  // nop
}

void node_traffic::on_event(const event& entry) {
  if (!first_)
    first_ = entry.newest;
  newest_ = entry.newest;
  const auto* push = std::get_if<inputs::arrived>(&entry.what);
  if (push != nullptr && weights_.lead > 0)
    of(push->header.id.worker).pushed += all_of(*push);
  for (const auto& answer : entry.decided.release) {
    auto& its = of(answer.worker);
    its.got += weights_for(answer.turn);
    its.pushes = answer.turn.pushes;
  }
}

// Of a gradient the lead sees its own part. That tells how much it is
// compressed, like the other parts. Of a fragment the lead may have nothing.
double node_traffic::all_of(const inputs::arrived& push) {
  auto which = of(push.header.id.worker).pushes;
  auto part_of = [which](const std::vector<uint64_t>& parts, uint64_t whole) {
    return static_cast<double>(which < parts.size() ? parts[which] : whole);
  };
  auto whole = part_of(weights_.fragments, weights_.whole);
  auto has_all = weights_.lead == weights_.whole;
  auto own = has_all ? whole : part_of(weights_.lead_fragments, weights_.lead);
  if (own > 0)
    sent_share_ = static_cast<double>(push.bytes) / own;
  return whole * sent_share_;
}

// Whoever goes on gets the fragment before the one that it pushes next.
double node_traffic::weights_for(const cores::fragment_turn& turn) const {
  const auto& all = weights_.fragments;
  auto before = turn.pushes > 0 ? turn.pushes - 1 : all.size() - 1;
  return static_cast<double>(
    turn.goes_on && before < all.size() ? all[before] : weights_.whole);
}

auto node_traffic::of(worker_id who) -> worker_bytes& {
  if (workers_.size() <= who.value)
    workers_.resize(who.value + 1);
  return workers_[who.value];
}

auto node_traffic::per_step() const -> std::optional<bytes_per_step> {
  if (!first_ || newest_ == *first_)
    return std::nullopt;
  worker_bytes all;
  for (const auto& worker : workers_) {
    all.pushed += worker.pushed;
    all.got += worker.got;
  }
  auto steps = static_cast<double>(newest_.value - first_->value);
  auto whole = static_cast<double>(std::max<uint64_t>(weights_.whole, 1));
  bytes_per_step out;
  for (size_t rank = 0; rank < workers_.size(); ++rank) {
    auto pushed = workers_[rank].pushed;
    auto got = workers_[rank].got;
    auto beside = rank < weights_.beside.size()
                    ? static_cast<double>(weights_.beside[rank]) / whole
                    : 0;
    out.sent.push_back((pushed * (1 - beside) + (all.got - got) * beside) /
                       steps);
    out.received.push_back(
      (got * (1 - beside) + (all.pushed - pushed) * beside) / steps);
  }
  return out;
}

} // namespace troupe
