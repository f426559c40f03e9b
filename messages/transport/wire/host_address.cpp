#include "messages/transport/wire/host_address.hpp"

#include "config/values/address.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <unistd.h>

#include <algorithm>
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

namespace {

const sockaddr_in& as_ipv4(const sockaddr& where) {
  return reinterpret_cast<const sockaddr_in&>(where);
}

const sockaddr_in6& as_ipv6(const sockaddr& where) {
  return reinterpret_cast<const sockaddr_in6&>(where);
}

/// What to do about an `errno` of listening.
std::string advice_on(int error) {
  switch (error) {
  case EADDRINUSE:
    return "; choose another port, or end the program that has it";
  case EACCES:
    return "; choose a port that this user may have, such as one above 1023";
  case EADDRNOTAVAIL:
    return "; give an address of this machine with --listen, or 0.0.0.0 for "
           "all";
  default:
    return "";
  }
}

path_error cannot_listen(int error) {
  return path_error{std::strerror(error) + advice_on(error)};
}

/// 0, or why this socket cannot listen there: an `errno`. A port is free again
/// at once when its last owner has ended.
int listen_with(const descriptor& fd, const sockaddr& where, socklen_t size) {
  int yes = 1;
  setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  auto can =
    bind(fd.get(), &where, size) == 0 && listen(fd.get(), SOMAXCONN) == 0;
  return can ? 0 : errno;
}

address_list look_up_own(const std::string& host, uint16_t port) try {
  return look_up(host, port, AI_PASSIVE);
} catch (const path_error& why) {
  throw path_error{std::string{why.what()} +
                   "; check the name, or give an address of this machine"};
}

} // namespace

std::string host_text(const sockaddr& where) {
  char text[INET6_ADDRSTRLEN] = {};
  if (where.sa_family == AF_INET)
    inet_ntop(AF_INET, &as_ipv4(where).sin_addr, text, sizeof text);
  else if (where.sa_family == AF_INET6)
    inet_ntop(AF_INET6, &as_ipv6(where).sin6_addr, text, sizeof text);
  std::string out{text};
  constexpr std::string_view carried = "::ffff:";
  auto is_ipv4 = out.starts_with(carried) && out.find('.') != out.npos;
  return is_ipv4 ? out.substr(carried.size()) : out;
}

bool is_loopback(const sockaddr& where) {
  return config::is_loopback(host_text(where));
}

// The port lies at the same place in both families of addresses.
uint16_t port_of(const descriptor& listener) {
  sockaddr_in6 bound{};
  socklen_t size = sizeof bound;
  getsockname(listener.get(), reinterpret_cast<sockaddr*>(&bound), &size);
  return ntohs(bound.sin6_port);
}

std::vector<descriptor> listen_at(const std::string& host, uint16_t port,
                                  bool leaves_host) {
  std::vector<descriptor> out;
  std::vector<std::string> seen; // A name may have an address twice.
  auto all = look_up_own(host, port);
  int error = EADDRNOTAVAIL;
  for (const auto* one = all.get(); one != nullptr; one = one->ai_next) {
    auto text = host_text(*one->ai_addr);
    if (std::ranges::count(seen, text) > 0)
      continue;
    seen.push_back(text);
    if (!leaves_host && !is_loopback(*one->ai_addr))
      throw path_error{text + " " + config::open_to_all};
    sockaddr_in6 where{};
    std::memcpy(&where, one->ai_addr, one->ai_addrlen);
    if (!out.empty())
      where.sin6_port = htons(port_of(out.front()));
    descriptor next{
      ::socket(one->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)};
    error = !next ? errno
                  : listen_with(next, reinterpret_cast<sockaddr&>(where),
                                one->ai_addrlen);
    if (error == 0)
      out.push_back(std::move(next));
    else if (error != EADDRNOTAVAIL && error != EAFNOSUPPORT)
      throw cannot_listen(error);
  }
  if (out.empty())
    throw cannot_listen(error);
  return out;
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
