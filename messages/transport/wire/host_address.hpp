#pragma once
// Addresses and bare sockets of the operating system, for those who connect and
// those who listen. Errors are `path_error`. Any thread.

#include "config/text/descriptor.hpp"
#include "messages/transport/wire/socket.hpp"

#include <netdb.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace troupe::transport {

/// The abstract name of a Unix socket: it has no file, and is gone with its
/// last holder.
struct unix_address {
  explicit unix_address(const std::string& name);

  const sockaddr* get() const {
    return reinterpret_cast<const sockaddr*>(&bytes);
  }

  sockaddr_un bytes{};
  socklen_t size = 0;
};

using address_list = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

/// The addresses of a host, for streams. `flags` as for `getaddrinfo`.
address_list look_up(const std::string& host, uint16_t port, int flags);

/// "10.0.0.1", "::1"; an IPv4 address that IPv6 carries looks like any other.
std::string host_text(const sockaddr& where);

/// Whether only this machine can reach an address.
bool is_loopback(const sockaddr& where);

/// The port at which a socket listens.
uint16_t port_of(const descriptor& listener);

/// Sockets that listen, and do not wait: at each address of the host that is
/// this machine's, at the same port. Errors say what to do.
/// @param port 0: any free one.
/// @param leaves_host Whether an address beyond loopback is allowed.
std::vector<descriptor> listen_at(const std::string& host, uint16_t port,
                                  bool leaves_host);

/// A stream socket that children do not inherit.
descriptor open_socket(int family, int flags);

/// Sets whether calls wait.
void make_blocking(int fd, bool yes);

/// Whether the other end of a Unix socket belongs to our user. It must, because
/// it can read all memory that it maps.
bool is_of_same_user(int fd);

/// For `poll`, rounded up.
int milliseconds(double seconds);

} // namespace troupe::transport
