#include "actors/runtime/exchange_front.hpp"

#include "actors/runtime/spawning.hpp"

#include <string>
#include <utility>

namespace troupe {

exchange_front_actor::behavior_type exchange_front_state::make_behavior() {
  return {
    [this](sum_atom, const shard_step& order) {
      return ask([&](transport::payload_taker take) {
        std::vector<double> shares{order.shares.begin(), order.shares.end()};
        exchange_->sum(order.gradients, shares, std::move(take));
      });
    },
    [this](fetch_atom, version of) {
      return ask([&](transport::payload_taker take) {
        exchange_->await_weights(of, std::move(take));
      });
    },
    [this](report_atom, transfer_id id, const payload& found) {
      answer(id, found);
    },
  };
}

template <class Ask>
auto exchange_front_state::ask(Ask call) -> payload_promise {
  auto promise = self_->make_response_promise<payload>();
  last_ = last_.next();
  open_.emplace(last_, promise);
  call([weak = caf::actor_cast<caf::actor_addr>(self_),
        id = last_](payload found) {
    if (auto there = caf::actor_cast<caf::strong_actor_ptr>(weak))
      caf::anon_send(caf::actor_cast<exchange_front_actor>(there),
                     report_atom_v, id, std::move(found));
  });
  return promise;
}

void exchange_front_state::answer(transfer_id id, const payload& found) {
  auto promise = std::move(open_.extract(id).mapped());
  if (found)
    promise.deliver(found);
  else
    promise.deliver(caf::make_error(errc::failed, "a sum over NCCL failed: " +
                                                    exchange_->why_over()));
}

node_exchange spawn_exchange_front(caf::actor_system& system,
                                   transport::gpu_exchange_ptr exchange) {
  if (!exchange)
    return {};
  auto front = spawn<exchange_front_actor, exchange_front_state>(
    system, placement::scheduled, exchange);
  return {std::move(exchange), std::move(front)};
}

} // namespace troupe
