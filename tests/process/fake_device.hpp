#pragma once
// The fake device for the processes that a test starts. Made and used on the
// test's thread.

#include <unistd.h>

#include <cstdlib>
#include <string>

namespace troupe::testing {

/// Children of this process find the fake device, and no other test takes
/// theirs.
struct fake_device {
  fake_device() {
    auto own = std::to_string(getpid());
    setenv("TROUPE_CUDA_LIBRARY", FAKE_CUDA, 1);
    setenv("CUDA_VISIBLE_DEVICES", (own + "-0," + own + "-1").c_str(), 1);
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
