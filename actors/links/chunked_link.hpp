#pragma once
// The link to a parameter server in another process, over the actor connection:
// headers as messages, payloads in chunks with credit. Its far end is a gateway.

#include "messages/interfaces.hpp"
#include "messages/transport/chunked.hpp"

#include <map>
#include <optional>

namespace troupe {

class chunked_link_state {
public:
  using pointer = chunked_link_actor::stateful_pointer<chunked_link_state>;

  static constexpr const char* name = "troupe.chunked-link";

  /// `expected` is the shape of the model's weights: nothing else is taken.
  chunked_link_state(pointer self, gateway_actor gateway,
                     payload_shape expected);

  chunked_link_actor::behavior_type make_behavior();

private:
  using weights_promise
    = caf::typed_response_promise<release_header, payload>;
  using watch_promise = caf::typed_response_promise<watch_header, payload>;

  /// A request on its way, and the answer as it comes in.
  struct exchange {
    std::optional<weights_promise> weights;
    std::optional<watch_promise> watch;
    release_header release;
    watch_header version;
    std::optional<transport::chunk_sender> outgoing;
    std::optional<transport::chunk_receiver> incoming;
  };

  using exchange_map = std::map<transfer_id, exchange>;

  caf::result<release_header, payload> push(const push_header& header,
                                            const payload& gradient);
  caf::result<release_header, payload> pull(const pull_header& header);
  caf::result<watch_header, payload> watch(version after);
  void pump(transfer_id id);
  void credit(transfer_id id, uint64_t received);
  void expect(transfer_id id, const payload_shape& shape);
  void take(const chunk& piece);
  void finish_if_complete(exchange_map::iterator which);
  void refuse(transfer_id id, const caf::error& why);
  void answer(exchange& done, payload weights);
  void break_off(const std::string& why);
  exchange& begin(transfer_id& id);

  pointer self_;
  gateway_actor gateway_;
  payload_shape expected_;
  transfer_id last_{0};
  exchange_map exchanges_;
};

} // namespace troupe
