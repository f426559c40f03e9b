#pragma once
// Bytes as a file that has a path but is not on a disk.

#include "tests/fuzz/target.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <string>

namespace troupe::fuzz {

class memory_file {
public:
  explicit memory_file(bytes_view content = {})
    : handle_(memfd_create("x", MFD_CLOEXEC)) {
    auto size = static_cast<ssize_t>(content.size());
    require(handle_ >= 0 &&
              ::write(handle_, content.data(), content.size()) == size,
            "no file in memory");
  }

  explicit memory_file(std::string_view text)
    : memory_file(bytes_view{reinterpret_cast<const uint8_t*>(text.data()),
                             text.size()}) {
    // nop
  }

  memory_file(const memory_file&) = delete;
  memory_file& operator=(const memory_file&) = delete;

  ~memory_file() { ::close(handle_); }

  std::string path() const {
    return "/proc/self/fd/" + std::to_string(handle_);
  }

private:
  int handle_;
};

} // namespace troupe::fuzz
