#pragma once
// A pair of connected sockets.

#include "messages/transport/wire/socket.hpp"

#include <sys/socket.h>

#include <utility>

namespace troupe::test {

/// Both ends of a connection within this process.
inline std::pair<transport::socket, transport::socket> socket_pair() {
  int both[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, both) != 0)
    throw transport::system_error("no socket pair");
  return {transport::socket{transport::descriptor{both[0]}},
          transport::socket{transport::descriptor{both[1]}}};
}

} // namespace troupe::test
