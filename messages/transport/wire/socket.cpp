#include "messages/transport/wire/socket.hpp"

#include "messages/transport/tls/tls_session.hpp"

#include <linux/tcp.h> // That of glibc has an older tcp_info.
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>

namespace troupe::transport {

path_error system_error(const std::string& action) {
  return path_error{action + ": " + std::strerror(errno)};
}

void drop_front(std::span<iovec>& parts, size_t bytes) {
  while (!parts.empty() && bytes >= parts.front().iov_len) {
    bytes -= parts.front().iov_len;
    parts = parts.subspan(1);
  }
  if (parts.empty())
    return;
  auto& first = parts.front();
  first.iov_base = static_cast<std::byte*>(first.iov_base) + bytes;
  first.iov_len -= bytes;
}

namespace {

void set(int fd, int level, int option, int value) {
  // Has no effect on a socket without this option.
  setsockopt(fd, level, option, &value, sizeof value);
}

/// s that a TCP connection may be idle before it is asked whether the other end
/// is still there, then between two questions; and s until it is given up when
/// nothing comes back.
constexpr int idle_time = 10;
constexpr int probe_interval = 5;
constexpr int silence = 30;

constexpr size_t most_passed = 1;

union passed_space {
  cmsghdr head;
  char bytes[CMSG_SPACE(most_passed * sizeof(int))];
};

void put_file(msghdr& message, passed_space& space, int file) {
  std::memset(&space, 0, sizeof space);
  message.msg_control = space.bytes;
  message.msg_controllen = sizeof space.bytes;
  auto* head = CMSG_FIRSTHDR(&message);
  head->cmsg_level = SOL_SOCKET;
  head->cmsg_type = SCM_RIGHTS;
  head->cmsg_len = CMSG_LEN(sizeof file);
  std::memcpy(CMSG_DATA(head), &file, sizeof file);
}

/// A caller that does not want the files closes them by dropping them.
void take_files(msghdr& message, std::vector<descriptor>* passed) {
  for (auto* head = CMSG_FIRSTHDR(&message); head != nullptr;
       head = CMSG_NXTHDR(&message, head)) {
    if (head->cmsg_level != SOL_SOCKET || head->cmsg_type != SCM_RIGHTS)
      continue;
    auto count = (head->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; ++i) {
      int file = -1;
      std::memcpy(&file, CMSG_DATA(head) + i * sizeof file, sizeof file);
      descriptor one{file};
      if (passed != nullptr)
        passed->push_back(std::move(one));
    }
  }
}

/// Of a record of TLS, at most.
constexpr size_t record_bytes = 16u << 10;

/// The next bytes of the parts in one piece, in `joined` if the first part is
/// small.
std::span<const std::byte> next_bytes(std::span<const iovec> parts,
                                      std::span<std::byte> joined) {
  const auto& first = parts.front();
  if (first.iov_len >= joined.size() || parts.size() == 1)
    return {static_cast<const std::byte*>(first.iov_base), first.iov_len};
  size_t size = 0;
  for (const auto& part : parts) {
    auto count = std::min(part.iov_len, joined.size() - size);
    std::memcpy(joined.data() + size, part.iov_base, count);
    size += count;
  }
  return joined.first(size);
}

} // namespace

socket::socket(connection_line line, int buffers)
  : fd_(std::move(line.fd)), tls_(std::move(line.tls)) {
  set(get(), IPPROTO_TCP, TCP_NODELAY, 1);
  // The kernel takes 15 min to tell a dead network from a slow one.
  set(get(), SOL_SOCKET, SO_KEEPALIVE, 1);
  set(get(), IPPROTO_TCP, TCP_KEEPIDLE, idle_time);
  set(get(), IPPROTO_TCP, TCP_KEEPINTVL, probe_interval);
  set(get(), IPPROTO_TCP, TCP_KEEPCNT, (silence - idle_time) / probe_interval);
  set(get(), IPPROTO_TCP, TCP_USER_TIMEOUT, silence * 1000);
  for (auto which : {SO_SNDBUF, SO_RCVBUF})
    if (buffers > 0)
      set(get(), SOL_SOCKET, which, buffers);
}

connection_line socket::release() {
  return {std::move(fd_), std::move(tls_)};
}

size_t socket::send(std::span<iovec>& parts, bool wait, int passed) {
  if (tls_)
    return send_tls(parts, wait);
  size_t total = 0;
  while (!parts.empty()) {
    msghdr message{};
    message.msg_iov = parts.data();
    message.msg_iovlen = parts.size();
    passed_space space;
    if (passed >= 0)
      put_file(message, space, passed);
    auto sent =
      ::sendmsg(get(), &message, MSG_NOSIGNAL | (wait ? 0 : MSG_DONTWAIT));
    if (sent < 0) {
      if (errno == EINTR)
        continue;
      if (!wait && (errno == EAGAIN || errno == EWOULDBLOCK))
        return total;
      throw system_error("connection lost");
    }
    if (sent > 0)
      passed = -1;
    total += static_cast<size_t>(sent);
    drop_front(parts, static_cast<size_t>(sent));
  }
  return total;
}

bool socket::receive(std::span<iovec> parts, std::vector<descriptor>* passed) {
  drop_front(parts, 0); // Empty parts in front need no bytes.
  if (tls_)
    return receive_tls(parts);
  auto begun = false;
  while (!parts.empty()) {
    msghdr message{};
    message.msg_iov = parts.data();
    message.msg_iovlen = parts.size();
    passed_space space;
    message.msg_control = space.bytes;
    message.msg_controllen = sizeof space.bytes;
    auto got = ::recvmsg(get(), &message, MSG_WAITALL | MSG_CMSG_CLOEXEC);
    if (got < 0) {
      if (errno == EINTR)
        continue;
      throw system_error("connection lost");
    }
    take_files(message, passed);
    if (got == 0) {
      if (!begun)
        return false;
      throw path_error{"the connection ended in the middle of a frame"};
    }
    begun = true;
    drop_front(parts, static_cast<size_t>(got));
  }
  return true;
}

// Each call makes at least one record, so what is small goes along with what
// follows.
size_t socket::send_tls(std::span<iovec>& parts, bool wait) {
  std::array<std::byte, record_bytes> joined;
  size_t total = 0;
  drop_front(parts, 0);
  while (!parts.empty()) {
    auto sent = tls_->write(next_bytes(parts, joined));
    total += sent.bytes;
    drop_front(parts, sent.bytes);
    if (sent.wait == tls_wait::nothing)
      continue;
    if (!wait)
      return total;
    await(sent.wait);
  }
  return total;
}

bool socket::receive_tls(std::span<iovec> parts) {
  auto begun = false;
  while (!parts.empty()) {
    auto& first = parts.front();
    auto got =
      tls_->read({static_cast<std::byte*>(first.iov_base), first.iov_len});
    begun = begun || got.bytes > 0;
    drop_front(parts, got.bytes);
    if (got.ended && !begun)
      return false;
    if (got.ended && !parts.empty())
      throw path_error{"the connection ended in the middle of a frame"};
    if (!parts.empty() && got.wait != tls_wait::nothing)
      await(got.wait);
  }
  return true;
}

void socket::await(tls_wait wanted) const {
  short events = wanted == tls_wait::readable ? POLLIN : POLLOUT;
  pollfd one{get(), events, 0};
  int limit = patience_ > 0 ? static_cast<int>(patience_ * 1000) : -1;
  int ready = 0;
  do
    ready = ::poll(&one, 1, limit);
  while (ready < 0 && errno == EINTR);
  if (ready == 0)
    errno = ETIMEDOUT;
  if (ready <= 0)
    throw system_error("connection lost");
}

void socket::patience(double seconds) {
  patience_ = seconds;
  timeval limit{};
  limit.tv_sec = static_cast<time_t>(seconds);
  limit.tv_usec = static_cast<suseconds_t>(
    (seconds - static_cast<double>(limit.tv_sec)) * 1e6);
  for (auto what : {SO_RCVTIMEO, SO_SNDTIMEO})
    setsockopt(get(), SOL_SOCKET, what, &limit, sizeof limit);
}

double socket::seconds_on_the_way() const noexcept {
  tcp_info info{};
  socklen_t size = sizeof info;
  if (::getsockopt(get(), IPPROTO_TCP, TCP_INFO, &info, &size) != 0 ||
      size < offsetof(tcp_info, tcpi_busy_time) + sizeof info.tcpi_busy_time)
    return 0;
  return static_cast<double>(info.tcpi_busy_time) * 1e-6;
}

bool socket::is_cut() const noexcept {
  pollfd one{get(), POLLRDHUP, 0};
  return ::poll(&one, 1, 0) > 0 &&
         (one.revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0;
}

void socket::shutdown() noexcept {
  ::shutdown(get(), SHUT_RDWR);
}

} // namespace troupe::transport
