#pragma once
// A node of the test's own that speaks the protocol by hand, and so can break
// it at any place: the opening, CAF's protocol, hellos, frames. Each is used by
// one thread; all are independent of each other.

#include "config/values/address.hpp"
#include "messages/proto/hello.pb.h"
#include "messages/transport/wire/meeting.hpp"

#include <caf/byte_buffer.hpp>
#include <caf/io/basp/header.hpp>
#include <caf/message.hpp>

#include <cstdint>
#include <string>
#include <string_view>

namespace troupe::testing {

/// A server, and what nodes show it.
struct server_at {
  config::address where;
  transport::credentials own{};
};

/// Encrypted where the credentials say so.
transport::socket reach(const server_at& to);

/// False when the other end has closed.
bool send_bytes(transport::socket& to, std::string_view bytes);

/// Says that no more is sent, and waits until the other end closes, too.
/// Returns whether it does within `limit` seconds.
bool is_closed(transport::socket& line, double limit);

/// Bytes of CAF's protocol.
std::string basp_frame(caf::io::basp::header head, const std::string& payload);

/// @param number Which node it says it is.
std::string basp_handshake(uint32_t number);

/// A message from one of its actors to one of the server's.
/// @param request Its number; 0: no answer is wanted.
std::string basp_message(caf::actor_id from, caf::actor_id to,
                         const caf::message& content, uint64_t request = 0);

/// A message with a handle of an actor of any node.
std::string basp_handle(caf::actor_id from, caf::actor_id to, uint32_t node,
                        caf::actor_id whom);

/// A node that the server has let in.
class member {
public:
  /// @param number No other node's.
  member(const server_at& to, uint32_t number);

  /// The published actor.
  caf::actor_id door() const { return door_; }

  /// Once it is let in: the actor that it was given.
  caf::actor_id gateway() const { return gateway_; }

  /// False when the other end has closed.
  bool send(const std::string& frame) { return send_bytes(line_, frame); }

  /// Asks to be let in as a worker; returns the answer. Throws `path_error`
  /// when the server closes, or says nothing for ten seconds.
  proto::Welcome say_hello();

  transport::socket& line() { return line_; }

private:
  using header = caf::io::basp::header;

  header next_frame(caf::byte_buffer& payload);

  transport::socket line_;
  caf::actor_id door_ = 0;
  caf::actor_id gateway_ = 0;
  uint64_t requests_ = 0;
};

} // namespace troupe::testing
