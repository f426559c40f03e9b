#pragma once
// Files and sockets of the operating system, closed with their owner.

#include <sys/uio.h>

#include <cstddef>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace troupe::transport {

/// Why a path cannot be had or goes no further: a line for the user.
class path_error : public std::runtime_error {
public:
  using std::runtime_error::runtime_error;
};

/// "WHAT: No such file or directory", from errno.
path_error system_error(const std::string& what);

/// An open file.
class descriptor {
public:
  descriptor() = default;

  explicit descriptor(int fd) : fd_(fd) {
    // nop
  }

  descriptor(descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {
    // nop
  }

  descriptor& operator=(descriptor other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }

  ~descriptor();

  int get() const { return fd_; }

  explicit operator bool() const { return fd_ >= 0; }

private:
  int fd_ = -1;
};

/// Takes `bytes` off the front of what is to be sent or filled.
void drop_front(std::span<iovec>& parts, size_t bytes);

/// A connected stream socket, TCP or Unix. One thread may send while another
/// receives; any may shut it down. Errors are `path_error`.
class socket {
public:
  /// Bytes that the kernel keeps for a connection, each way. Measured on
  /// loopback: see docs/threading.md.
  static constexpr int buffer_bytes = 4 << 20;

  /// Takes over a connection and sets it up: no delay, large buffers, and over
  /// TCP an end when the other side has been silent for 30 s.
  explicit socket(descriptor fd);

  /// Sends what goes without waiting, or with `wait` all of it; `parts` is left
  /// with the rest. A `passed` file goes along with the first byte. Returns the
  /// bytes that went.
  size_t send(std::span<iovec>& parts, bool wait, int passed = -1);

  /// Fills all parts. False if the other end closed before the first byte.
  /// Files that came along are put into `passed`; else they are closed.
  bool receive(std::span<iovec> parts, std::vector<descriptor>* passed);

  /// How long `receive` waits for bytes, in s; 0 without end.
  void patience(double seconds);

  /// s that bytes were on their way out, so far, as TCP has counted them; 0 for
  /// other sockets.
  double seconds_on_the_way() const noexcept;

  /// Has the other end closed? What it sent before may still be read.
  bool is_cut() const noexcept;

  /// Ends both directions and wakes all who wait.
  void shutdown() noexcept;

  int get() const { return fd_.get(); }

private:
  descriptor fd_;
};

} // namespace troupe::transport
