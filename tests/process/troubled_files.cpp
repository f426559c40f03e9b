// Loaded before the C library (LD_PRELOAD): a file system with a fault.
//
// TROUBLE_LOCKS=granted: every lock is granted, to everybody. =none: there are
// no locks.

#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <string_view>

namespace {

std::string_view variable(const char* name) {
  const auto* value = std::getenv(name);
  return value != nullptr ? value : "";
}

} // namespace

extern "C" int flock(int file, int operation) noexcept {
  auto locks = variable("TROUBLE_LOCKS");
  if (locks == "granted")
    return 0;
  if (locks == "none") {
    errno = ENOLCK;
    return -1;
  }
  return static_cast<int>(::syscall(SYS_flock, file, operation));
}
