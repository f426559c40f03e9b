#include "messages/transport/nccl/gpu_exchange.hpp"

#include <utility>

namespace troupe::transport {

// The group calls nobody back any more once it is dropped.
gpu_exchange::~gpu_exchange() {
  gpu_group_ptr over;
  std::lock_guard guard{mutex_};
  std::swap(over, group_);
}

void gpu_exchange::open(const exchange_terms& terms, news_taker told) {
  auto size = static_cast<int>(terms.cut.counts.size());
  std::lock_guard guard{mutex_};
  terms_ = terms;
  group_ = network_->open(
    terms.id, terms.rank, size, terms.patience,
    [told = std::move(told)](gpu_group::phase now, const std::string& why) {
      if (now != gpu_group::phase::meeting)
        told(now == gpu_group::phase::open ? std::string{} : why);
    });
}

gpu_group_ptr gpu_exchange::group() const {
  std::lock_guard guard{mutex_};
  return group_;
}

bool gpu_exchange::is_open() const {
  auto its = group();
  return its && its->state() == gpu_group::phase::open;
}

std::string gpu_exchange::why_over() const {
  auto its = group();
  return its ? its->why_over() : "the nodes have not met";
}

void gpu_exchange::end(const std::string& why) {
  if (auto its = group())
    its->end(why);
}

// -- by the worker ------------------------------------------------------------

void gpu_exchange::offer(const push_id& id, payload gradient) {
  std::lock_guard guard{mutex_};
  offered_.insert_or_assign(id, std::move(gradient));
}

void gpu_exchange::await_weights(version of, payload_taker take) {
  payload there;
  {
    std::lock_guard guard{mutex_};
    if (!failed_ && newest_ != of) {
      auto before = std::exchange(waiting_, std::pair{of, std::move(take)});
      if (!before)
        return;
      take = std::move(before->second);
    } else if (!failed_) {
      there = std::exchange(weights_, {});
    }
  }
  take(std::move(there));
}

// -- by the shard -------------------------------------------------------------

void gpu_exchange::sum(std::span<const push_id> ids,
                       std::span<const double> shares, payload_taker take) {
  std::vector<summand> own;
  gpu_group_ptr its;
  {
    std::lock_guard guard{mutex_};
    its = group_;
    double all = 0;
    for (auto share : shares)
      all += share;
    for (size_t i = 0; i < ids.size(); ++i)
      if (auto found = offered_.extract(ids[i]))
        own.push_back({std::move(found.mapped()), shares[i] / all});
  }
  if (!its)
    return take({});
  its->sum(std::move(own), terms_.cut, terms_.form, std::move(take));
}

void gpu_exchange::drop(std::span<const push_id> ids) {
  std::vector<payload> dropped; // Let go of without the lock.
  std::lock_guard guard{mutex_};
  for (const auto& id : ids)
    if (auto found = offered_.extract(id))
      dropped.push_back(std::move(found.mapped()));
}

void gpu_exchange::gather(version of, payload range) {
  if (auto its = group())
    its->gather(std::move(range), terms_.cut,
                [weak = weak_from_this(), of](payload all) {
                  if (auto self = weak.lock())
                    self->gathered(of, std::move(all));
                });
}

void gpu_exchange::gathered(version of, payload all) {
  payload_taker take;
  {
    std::lock_guard guard{mutex_};
    failed_ = failed_ || !all;
    newest_ = of;
    auto wanted = waiting_ && (failed_ || waiting_->first == of);
    if (wanted)
      take = std::exchange(waiting_, std::nullopt)->second;
    else
      weights_ = all;
  }
  if (take)
    take(std::move(all));
}

} // namespace troupe::transport
