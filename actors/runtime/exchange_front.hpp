#pragma once
// Lets actors ask the exchange of their node's GPU, which calls back on threads
// of its own. An actor beside the shard, and another beside the worker.

#include "messages/interfaces.hpp"
#include "messages/transport/nccl/gpu_exchange.hpp"

#include <map>

namespace troupe {

class exchange_front_state {
public:
  using pointer = exchange_front_actor::stateful_pointer<exchange_front_state>;

  static constexpr const char* name = "troupe.exchange-front";

  exchange_front_state(pointer self, transport::gpu_exchange_ptr exchange)
    : self_(self), exchange_(std::move(exchange)) {
    // nop
  }

  exchange_front_actor::behavior_type make_behavior();

private:
  using payload_promise = caf::typed_response_promise<payload>;

  template <class Ask>
  payload_promise ask(Ask call);
  void answer(transfer_id id, const payload& found);

  pointer self_;
  transport::gpu_exchange_ptr exchange_;
  transfer_id last_{0};
  std::map<transfer_id, payload_promise> open_;
};

/// What an actor needs of the exchange of its node's GPU; all null without.
struct node_exchange {
  transport::gpu_exchange_ptr exchange{};
  exchange_front_actor front{};

  explicit operator bool() const { return exchange != nullptr; }
};

/// Null for a null exchange.
node_exchange spawn_exchange_front(caf::actor_system& system,
                                   transport::gpu_exchange_ptr exchange);

} // namespace troupe
