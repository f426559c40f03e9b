#include "messages/transport/wire/host_address.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <cstddef>
#include <cstring>

namespace troupe::transport {

unix_address::unix_address(const std::string& name) {
  bytes.sun_family = AF_UNIX;
  if (name.size() >= sizeof bytes.sun_path)
    throw path_error{"the name of a Unix socket is too long"};
  std::memcpy(bytes.sun_path + 1, name.data(), name.size());
  size =
    static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
}

address_list look_up(const std::string& host, uint16_t port, int flags) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  if (auto err =
        getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
      err != 0)
    throw path_error{
      "cannot look up " + host + ": " +
      (err == EAI_SYSTEM ? std::strerror(errno) : gai_strerror(err))};
  return {found, &freeaddrinfo};
}

descriptor open_socket(int family, int flags) {
  descriptor out{::socket(family, SOCK_STREAM | SOCK_CLOEXEC | flags, 0)};
  if (!out)
    throw system_error("cannot open a socket");
  return out;
}

void make_blocking(int fd, bool yes) {
  auto flags = fcntl(fd, F_GETFL);
  fcntl(fd, F_SETFL, yes ? flags & ~O_NONBLOCK : flags | O_NONBLOCK);
}

bool is_of_same_user(int fd) {
  ucred peer{};
  socklen_t size = sizeof peer;
  return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 &&
         peer.uid == geteuid();
}

int milliseconds(double seconds) {
  return static_cast<int>(std::ceil(seconds * 1000));
}

} // namespace troupe::transport
