#pragma once
// An open file, socket or other descriptor of the operating system, closed by
// the destructor of its one owner. Not thread-safe.

#include <unistd.h>

#include <utility>

namespace troupe::config {

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

  ~descriptor() {
    if (fd_ >= 0)
      ::close(fd_);
  }

  int get() const { return fd_; }

  /// The caller closes it.
  int release() { return std::exchange(fd_, -1); }

  explicit operator bool() const { return fd_ >= 0; }

private:
  int fd_ = -1;
};

} // namespace troupe::config
