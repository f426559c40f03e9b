#include "messages/transport/tls/kernel_tls.hpp"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/opensslconf.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace troupe::transport {

std::string why_no_kernel_tls() {
#ifdef OPENSSL_NO_KTLS
  return "OpenSSL was built without it";
#else
  auto fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0)
    return std::string{"no socket: "} + std::strerror(errno);
  constexpr char name[] = "tls";
  auto result = ::setsockopt(fd, IPPROTO_TCP, TCP_ULP, name, sizeof name - 1);
  // The kernel looks for its module first, then at the socket, which is not
  // connected.
  auto has_it = result == 0 || errno == ENOTCONN;
  ::close(fd);
  return has_it ? "" : "this kernel has no TLS (as root: modprobe tls)";
#endif
}

} // namespace troupe::transport
