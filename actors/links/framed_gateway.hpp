#pragma once
// The server's end of a link from another process: turns frames into requests,
// and answers into frames.
//
// An actor beside the parameter server, one for each peer. It ends with the
// peer, or with the peer's gateway.

#include "actors/links/frame_channel.hpp"
#include "actors/segments/module_roster.hpp"
#include "messages/transport/compression/compression.hpp"

#include <functional>

namespace troupe {

/// Makes what stands before the server for one worker.
using module_factory = std::function<module_host_actor()>;

struct framed_gateway_parts {
  parameter_server_actor server;
  gateway_actor gateway; ///< The same peer's.
  frame_channel_ptr channel;
  transport::codec_ptr codec{}; ///< Compresses gradients; or null.
  module_factory modules{};     ///< Null: the server has no modules.
};

class framed_gateway_state {
public:
  using pointer = path_end_actor::stateful_pointer<framed_gateway_state>;

  static constexpr const char* name = "troupe.framed-gateway";

  framed_gateway_state(pointer self, framed_gateway_parts parts);

  ~framed_gateway_state();

  framed_gateway_state(const framed_gateway_state&) = delete;
  framed_gateway_state& operator=(const framed_gateway_state&) = delete;

  path_end_actor::behavior_type make_behavior();

private:
  void handle_frame(const transport::frame& message);
  void push(const transport::frame& message);
  template <class... Ts>
  void ask_modules(transfer_id id, Ts&&... request);
  const parameter_server_actor& door();
  void take_request();

  /// Which fragment the next gradient is of.
  void note(const release_header& given) { fragment_ = given.fragment; }
  void note(const watch_header&) {}

  template <class Header, class... Ts>
  void ask(const parameter_server_actor& whom, transport::frame_kind answer,
           transfer_id id, const Ts&... request);
  void refuse(transfer_id id, const caf::error& why);

  pointer self_;
  parameter_server_actor server_;
  module_factory make_modules_;
  module_host_actor modules_;   ///< Null until a worker needs them.
  parameter_server_actor door_; ///< The same, as a server.
  gateway_actor gateway_;
  frame_channel_ptr channel_;
  transport::unpacker unpacker_;
  uint32_t fragment_ = 0; ///< Of the next gradient, as in a release_header.
  size_t open_ = 0;       ///< Requests that the server has not answered.
};

} // namespace troupe
