#pragma once
// Sockets on the loopback interface.

#include <netinet/in.h>
#include <sys/socket.h>

#include <cstdint>
#include <stdexcept>

namespace troupe::testing {

inline sockaddr_in loopback(uint16_t port) {
  sockaddr_in out{};
  out.sin_family = AF_INET;
  out.sin_port = htons(port);
  out.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return out;
}

/// A socket that others can connect to; the caller closes it.
/// @param port 0: one that is free.
inline int listen_on(uint16_t port) {
  auto door = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  int yes = 1;
  setsockopt(door, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  auto at = loopback(port);
  if (bind(door, reinterpret_cast<sockaddr*>(&at), sizeof at) != 0 ||
      listen(door, 16) != 0)
    throw std::runtime_error("cannot listen");
  return door;
}

inline uint16_t port_of(int door) {
  sockaddr_in at{};
  socklen_t size = sizeof at;
  getsockname(door, reinterpret_cast<sockaddr*>(&at), &size);
  return ntohs(at.sin_port);
}

} // namespace troupe::testing
