#pragma once
// Faults between a node and its surroundings, for tests: a network that carries
// nothing for a while, a pipe that nobody reads.

#include "tests/process/process_fixture.hpp"
#include "tests/support/loopback.hpp"

#include <catch2/catch_test_macros.hpp>
#include <fcntl.h>
#include <linux/filter.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <csignal>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

namespace troupe::testing {

/// A proxy that forwards connections as long as it is told to. Data that
/// arrives at other times waits.
class proxy {
public:
  explicit proxy(uint16_t to)
    : to_(to), port_(free_port()), door_(listen_on(port_)) {
    thread_ = std::thread{[this] {
      run();
    }};
  }

  ~proxy() {
    over_ = true;
    thread_.join();
    for (const auto& one : pairs_)
      end(one);
    ::close(door_);
  }

  std::string port() const { return std::to_string(port_); }

  void carry(bool whether) { carries_ = whether; }

private:
  struct pair {
    int near = -1;
    int far = -1;
  };

  void run() {
    while (!over_) {
      std::vector<pollfd> all{{door_, POLLIN, 0}};
      for (const auto& one : pairs_) {
        all.push_back({one.near, POLLIN, 0});
        all.push_back({one.far, POLLIN, 0});
      }
      if (!carries_) {
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
        continue;
      }
      ::poll(all.data(), all.size(), 20);
      std::vector<pair> left;
      for (size_t i = 0; i < pairs_.size(); ++i)
        if (pass(all[2 * i + 1], pairs_[i].far) &&
            pass(all[2 * i + 2], pairs_[i].near))
          left.push_back(pairs_[i]);
        else
          end(pairs_[i]);
      pairs_ = left;
      if (all[0].revents != 0)
        open();
    }
  }

  void open() {
    pair next;
    next.near = ::accept4(door_, nullptr, nullptr, SOCK_CLOEXEC);
    next.far = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    auto where = loopback(to_);
    if (connect(next.far, reinterpret_cast<sockaddr*>(&where), sizeof where) ==
        0)
      pairs_.push_back(next);
    else
      end(next);
  }

  static bool pass(const pollfd& from, int to) {
    if (from.revents == 0)
      return true;
    std::array<char, 65536> bytes{};
    auto n = ::recv(from.fd, bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (n < 0)
      return errno == EAGAIN;
    for (ssize_t done = 0; done < n;) {
      auto sent = ::send(to, bytes.data() + done, static_cast<size_t>(n - done),
                         MSG_NOSIGNAL);
      if (sent < 0)
        return false;
      done += sent;
    }
    return n > 0;
  }

  static void end(const pair& one) {
    ::close(one.near);
    ::close(one.far);
  }

  uint16_t to_;
  uint16_t port_;
  int door_;
  std::atomic<bool> over_ = false;
  std::atomic<bool> carries_ = true;
  std::vector<pair> pairs_; ///< Used by the thread only.
  std::thread thread_;
};

inline bool has_own_buffers(int line) {
  int locked = 0;
  socklen_t size = sizeof locked;
  return getsockopt(line, SOL_SOCKET, SO_BUF_LOCK, &locked, &size) == 0 &&
         locked != 0;
}

/// Stops (or resumes) what a process receives on its tensor path, while its
/// control connection to the same port continues: only paths have buffers of a
/// size of their own. Returns false when it has no path over TCP.
inline bool deafen(pid_t process, int port, bool whether) {
  auto whole = static_cast<int>(syscall(SYS_pidfd_open, process, 0));
  auto found = false;
  sock_filter nothing[] = {{BPF_RET | BPF_K, 0, 0, 0}};
  sock_fprog filter{1, nothing};
  int unused = 0;
  for (int fd = 3; fd < 256; ++fd) {
    auto copy = static_cast<int>(syscall(SYS_pidfd_getfd, whole, fd, 0));
    if (copy < 0)
      continue;
    sockaddr_in there{};
    socklen_t size = sizeof there;
    if (getpeername(copy, reinterpret_cast<sockaddr*>(&there), &size) == 0 &&
        there.sin_family == AF_INET && ntohs(there.sin_port) == port &&
        has_own_buffers(copy))
      found |= (whether ? setsockopt(copy, SOL_SOCKET, SO_ATTACH_FILTER,
                                     &filter, sizeof filter)
                        : setsockopt(copy, SOL_SOCKET, SO_DETACH_FILTER,
                                     &unused, sizeof unused)) == 0;
    ::close(copy);
  }
  ::close(whole);
  return found;
}

/// A pipe that is full and that nobody reads.
class full_pipe {
public:
  full_pipe() {
    if (::pipe2(ends_.data(), O_CLOEXEC) != 0)
      throw std::runtime_error("no pipe");
    auto flags = fcntl(in(), F_GETFL);
    fcntl(in(), F_SETFL, flags | O_NONBLOCK);
    std::array<char, 4096> text{};
    text.fill('x');
    while (::write(in(), text.data(), text.size()) > 0)
      ;
    fcntl(in(), F_SETFL, flags);
  }

  ~full_pipe() {
    for (auto end : ends_)
      ::close(end);
  }

  int in() const { return ends_[1]; }

private:
  std::array<int, 2> ends_{};
};

inline size_t count_of(const process_fixture& on, const std::string& kind) {
  size_t out = 0;
  for (const auto& line : on.metrics())
    out += line["kind"] == kind;
  return out;
}

} // namespace troupe::testing
