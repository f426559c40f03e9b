#include "bench/transport/loopback.hpp"

#include "config/text/failure.hpp"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

namespace troupe::bench {

namespace {

constexpr int buffer_bytes = 4 << 20;

[[noreturn]] void fail(const char* reason) {
  throw run_error(std::string{reason} + ": " + std::strerror(errno));
}

void set_up(int fd, uint32_t bytes_per_second) {
  int yes = 1;
  ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
  ::setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &buffer_bytes, sizeof buffer_bytes);
  ::setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &buffer_bytes, sizeof buffer_bytes);
  if (bytes_per_second > 0 &&
      ::setsockopt(fd, SOL_SOCKET, SO_MAX_PACING_RATE, &bytes_per_second,
                   sizeof bytes_per_second) != 0)
    fail("cannot slow a connection down");
}

} // namespace

connection connect_loopback(uint32_t bytes_per_second) {
  auto listener = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  auto* any = reinterpret_cast<sockaddr*>(&address);
  if (::bind(listener, any, length) != 0 || ::listen(listener, 1) != 0 ||
      ::getsockname(listener, any, &length) != 0)
    fail("cannot listen");
  connection out;
  out.worker = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (::connect(out.worker, any, length) != 0)
    fail("cannot connect");
  out.server = ::accept(listener, nullptr, nullptr);
  ::close(listener);
  if (out.server < 0)
    fail("cannot accept");
  set_up(out.worker, bytes_per_second);
  set_up(out.server, bytes_per_second);
  return out;
}

} // namespace troupe::bench
