#pragma once
// The server's end of a link whose tensors have a path of their own: turns
// frames into requests, and answers into frames.
//
// An actor beside the parameter server, one for each peer. It ends with the
// peer, or with the peer's gateway.

#include "actors/links/path_half.hpp"
#include "messages/transport/compression/compression.hpp"

namespace troupe {

struct framed_gateway_parts {
  parameter_server_actor server;
  gateway_actor gateway; ///< The same peer's.
  transport::path_ptr way;
  transport::codec_ptr codec{}; ///< Compresses gradients; or null.
};

class framed_gateway_state {
public:
  using pointer = path_end_actor::stateful_pointer<framed_gateway_state>;

  static constexpr const char* name = "troupe.framed-gateway";

  framed_gateway_state(pointer self, framed_gateway_parts parts);

  path_end_actor::behavior_type make_behavior();

  /// Called with the server's answer.
  void answer(transfer_id id, const release_header& header,
              const payload& weights);
  void answer(transfer_id id, const watch_header& header,
              const payload& weights);
  void refuse(transfer_id id, const caf::error& why);

private:
  void take(const transport::frame& what);
  void push(const transport::frame& what);

  template <class Header, class... Ts>
  void ask(transfer_id id, const Ts&... request);

  pointer self_;
  parameter_server_actor server_;
  gateway_actor gateway_;
  path_half way_;
  transport::unpacker unpacker_;
  size_t open_ = 0; ///< Requests that the server has not answered.
};

} // namespace troupe
