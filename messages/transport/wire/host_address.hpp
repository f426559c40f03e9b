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
