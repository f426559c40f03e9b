#pragma once
// The fake device for the processes that a test starts. Made and used on the
// test's thread.

#include <unistd.h>

#include <cstdlib>
#include <string>

namespace troupe::testing {

/// Children of this process find so many fake devices, and no other test takes
/// theirs.
struct fake_device {
  explicit fake_device(int devices = 2) {
    std::string all;
    for (int i = 0; i < devices; ++i)
      all +=
        (i > 0 ? "," : "") + std::to_string(getpid()) + "-" + std::to_string(i);
    setenv("TROUPE_CUDA_LIBRARY", FAKE_CUDA, 1);
    setenv("CUDA_VISIBLE_DEVICES", all.c_str(), 1);
    setenv("FAKE_CUDA_DEVICES", std::to_string(devices).c_str(), 1);
  }

  ~fake_device() {
    unsetenv("TROUPE_CUDA_LIBRARY");
    unsetenv("CUDA_VISIBLE_DEVICES");
    for (const auto* one : {"FAKE_CUDA_DEVICES", "FAKE_CUDA_MEMORY",
                            "FAKE_CUDA_DRIVER", "FAKE_CUDA_FAILS_AFTER"})
      unsetenv(one);
  }
};

} // namespace troupe::testing
