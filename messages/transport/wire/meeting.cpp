#include "messages/transport/wire/meeting.hpp"

#include "config/values/address.hpp"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <cstring>

namespace troupe::transport {

namespace {

constexpr char hello_mark[4] = {'T', 'R', 'P', 'H'};
constexpr char accepted = 'Y';
constexpr size_t introduction_size = sizeof hello_mark + token_size;

// -- addresses ----------------------------------------------------------------

struct unix_address {
  explicit unix_address(const std::string& name) {
    bytes.sun_family = AF_UNIX;
    if (name.size() >= sizeof bytes.sun_path)
      throw path_error{"the name of a Unix socket is too long"};
    // An abstract name: no file, gone with its last holder.
    std::memcpy(bytes.sun_path + 1, name.data(), name.size());
    size =
      static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  }

  const sockaddr* get() const {
    return reinterpret_cast<const sockaddr*>(&bytes);
  }

  sockaddr_un bytes{};
  socklen_t size = 0;
};

using address_list = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

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

void waits(int fd, bool yes) {
  auto flags = fcntl(fd, F_GETFL);
  fcntl(fd, F_SETFL, yes ? flags & ~O_NONBLOCK : flags | O_NONBLOCK);
}

/// The other end of a Unix socket must belong to our user, because it can read
/// all memory that it maps.
bool same_user(int fd) {
  ucred peer{};
  socklen_t size = sizeof peer;
  return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 &&
         peer.uid == geteuid();
}

std::string random_bytes(size_t count) {
  std::string out(count, '\0');
  if (getrandom(out.data(), count, 0) != static_cast<ssize_t>(count))
    throw system_error("no random bytes");
  return out;
}

int milliseconds(double seconds) {
  return static_cast<int>(std::ceil(seconds * 1000));
}
} // namespace

std::string random_token() {
  return random_bytes(token_size);
}

std::string random_name() {
  std::string out = "troupe-";
  for (auto byte : random_bytes(token_size))
    for (auto digit : {(byte >> 4) & 15, byte & 15})
      out += "0123456789abcdef"[digit];
  return out;
}

// -- who connects -------------------------------------------------------------

namespace {

/// False when nobody answers there; errno says why.
bool connects(int fd, const addrinfo& to, double patience) {
  if (connect(fd, to.ai_addr, to.ai_addrlen) == 0)
    return true;
  if (errno != EINPROGRESS)
    return false;
  pollfd writable{fd, POLLOUT, 0};
  if (poll(&writable, 1, milliseconds(patience)) != 1) {
    errno = ETIMEDOUT;
    return false;
  }
  int error = 0;
  socklen_t size = sizeof error;
  getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size);
  errno = error;
  return error == 0;
}

} // namespace

socket connect_stream(const std::string& host, uint16_t port, double patience) {
  auto all = look_up(host, port, 0);
  for (const auto* one = all.get(); one != nullptr; one = one->ai_next) {
    auto fd = open_socket(one->ai_family, SOCK_NONBLOCK);
    if (!connects(fd.get(), *one, patience))
      continue;
    waits(fd.get(), true);
    return socket{std::move(fd)};
  }
  throw system_error("cannot connect to " +
                     config::to_string(config::address{host, port}));
}

std::string why_unreachable(const std::string& host, uint16_t port,
                            double patience) try {
  const std::string silent = "nobody answers there";
  auto all = look_up(host, port, 0);
  for (const auto* one = all.get(); one != nullptr; one = one->ai_next) {
    auto fd = open_socket(one->ai_family, SOCK_NONBLOCK);
    if (connects(fd.get(), *one, patience) || errno == ECONNREFUSED ||
        errno == ETIMEDOUT)
      return silent;
  }
  return std::strerror(errno);
} catch (const path_error& why) {
  return why.what();
}

socket connect_unix(const std::string& name) {
  unix_address where{name};
  auto fd = open_socket(AF_UNIX, 0);
  if (connect(fd.get(), where.get(), where.size) != 0)
    throw system_error("cannot connect to the Unix socket " + name);
  if (!same_user(fd.get()))
    throw path_error{"the Unix socket " + name + " is another user's"};
  return socket{std::move(fd)};
}

void introduce(socket& line, const std::string& token, double patience) {
  std::string bytes{hello_mark, sizeof hello_mark};
  bytes += token;
  iovec out[] = {{bytes.data(), bytes.size()}};
  std::span<iovec> rest{out};
  line.send(rest, true);
  char answer = 0;
  iovec in[] = {{&answer, 1}};
  line.patience(patience);
  if (!line.receive(in, nullptr) || answer != accepted)
    throw path_error{
      "the parameter server did not accept the connection for tensors"};
  line.patience(0);
}

// -- who listens --------------------------------------------------------------

void guest::welcome() {
  auto answer = accepted;
  iovec out[] = {{&answer, 1}};
  std::span<iovec> rest{out};
  line.send(rest, true);
}

/// A peer that has connected, and has not yet shown all of a token.
struct reception::pending {
  socket line;
  bool same_host = false;
  clock::time_point until;
  std::string shown;

  /// False when the peer is to be disconnected.
  bool read() {
    std::array<char, introduction_size> bytes;
    auto got =
      recv(line.get(), bytes.data(), introduction_size - shown.size(), 0);
    if (got < 0)
      return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
    shown.append(bytes.data(), static_cast<size_t>(got));
    auto known = std::min(shown.size(), sizeof hello_mark);
    return got > 0 && std::memcmp(shown.data(), hello_mark, known) == 0;
  }

  bool complete() const { return shown.size() == introduction_size; }
};

reception::reception(const reception_terms& terms)
  : terms_(terms), wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (!wake_)
    throw system_error("cannot make an event");
  if (!terms.host.empty())
    open_stream(terms.host);
  if (terms.same_host)
    open_unix();
}

reception::~reception() = default;

void reception::open_stream(const std::string& host) {
  auto all = look_up(host, 0, AI_PASSIVE);
  stream_ = open_socket(all->ai_family, SOCK_NONBLOCK);
  if (bind(stream_.get(), all->ai_addr, all->ai_addrlen) != 0 ||
      listen(stream_.get(), SOMAXCONN) != 0)
    throw system_error("cannot listen on " + host);
  sockaddr_storage bound{};
  socklen_t size = sizeof bound;
  getsockname(stream_.get(), reinterpret_cast<sockaddr*>(&bound), &size);
  port_ = ntohs(bound.ss_family == AF_INET6
                  ? reinterpret_cast<sockaddr_in6&>(bound).sin6_port
                  : reinterpret_cast<sockaddr_in&>(bound).sin_port);
}

void reception::open_unix() {
  name_ = random_name();
  unix_address where{name_};
  unix_ = open_socket(AF_UNIX, SOCK_NONBLOCK);
  if (bind(unix_.get(), where.get(), where.size) != 0 ||
      listen(unix_.get(), SOMAXCONN) != 0)
    throw system_error("cannot listen on a Unix socket");
}

// A connection that cannot be accepted stays pending, and poll would report it
// again and again: without a pause that would use a whole core.
void reception::accept_from(const descriptor& listener, bool same_host) {
  std::chrono::duration<double> patience{terms_.patience}, rest{terms_.rest};
  auto now = clock::now();
  for (;;) {
    descriptor fd{
      accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK)};
    if (!fd && (errno == EINTR || errno == ECONNABORTED))
      continue;
    if (!fd && errno != EAGAIN && errno != EWOULDBLOCK)
      rests_until_ = now + std::chrono::duration_cast<clock::duration>(rest);
    if (!fd)
      return;
    if (same_host && !same_user(fd.get()))
      continue;
    if (pending_.size() == terms_.most_pending)
      pending_.erase(pending_.begin());
    pending_.push_back(
      {socket{std::move(fd)},
       same_host,
       now + std::chrono::duration_cast<clock::duration>(patience),
       {}});
  }
}

/// ms until something is due; -1: nothing is.
int reception::time_to_wait(clock::time_point now) const {
  auto due = clock::time_point::max();
  if (now < rests_until_)
    due = rests_until_;
  if (!pending_.empty())
    due = std::min(due, pending_.front().until);
  if (due == clock::time_point::max())
    return -1;
  std::chrono::duration<double> left = due - now;
  return milliseconds(std::max(left.count(), 0.0));
}

std::vector<guest> reception::wait() {
  std::vector<guest> out;
  while (out.empty() && !closed_) {
    auto now = clock::now();
    auto rests = now < rests_until_;
    std::vector<pollfd> all{{wake_.get(), POLLIN, 0},
                            {rests ? -1 : stream_.get(), POLLIN, 0},
                            {rests ? -1 : unix_.get(), POLLIN, 0}};
    auto fixed = all.size(); // poll skips -1.
    for (const auto& one : pending_)
      all.push_back({one.line.get(), POLLIN, 0});
    if (poll(all.data(), all.size(), time_to_wait(now)) < 0) {
      if (errno == EINTR)
        continue;
      if (pending_.empty())
        throw system_error("cannot wait for connections");
      pending_.erase(pending_.begin()); // More than the limit of files.
      continue;
    }
    if (all[0].revents != 0) {
      uint64_t nudges = 0;
      [[maybe_unused]] auto done = ::read(wake_.get(), &nudges, sizeof nudges);
      return {};
    }
    now = clock::now();
    std::vector<pending> still;
    for (size_t i = 0; i < pending_.size(); ++i) {
      auto& one = pending_[i];
      auto stays =
        now < one.until && (all[fixed + i].revents == 0 || one.read());
      if (stays && one.complete()) {
        waits(one.line.get(), true);
        out.push_back({one.shown.substr(sizeof hello_mark), one.same_host,
                       std::move(one.line)});
      } else if (stays) {
        still.push_back(std::move(one));
      }
    }
    pending_ = std::move(still);
    if (all[1].revents != 0)
      accept_from(stream_, false);
    if (all[2].revents != 0)
      accept_from(unix_, true);
  }
  return out;
}

void reception::nudge() noexcept {
  uint64_t one = 1;
  [[maybe_unused]] auto done = ::write(wake_.get(), &one, sizeof one);
}

void reception::close() noexcept {
  closed_ = true;
  nudge();
}

} // namespace troupe::transport
