// Loaded before the C library (LD_PRELOAD): a file system with a fault.
//
// TROUBLE_LOCKS=granted: every lock is granted, to everybody. =none: there are
// no locks. TROUBLE_SLOW=TEXT: opening a file with TEXT in its path takes three
// seconds, in small steps.

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdarg>
#include <cstdlib>
#include <string_view>

namespace {

std::string_view variable(const char* name) {
  const auto* value = std::getenv(name);
  return value != nullptr ? value : "";
}

int open_in_time(const char* path, int flags, mode_t mode) {
  auto slow = variable("TROUBLE_SLOW");
  if (!slow.empty() && std::string_view{path}.find(slow) != slow.npos)
    for (int i = 0; i < 60; ++i)
      ::usleep(50'000);
  return static_cast<int>(::syscall(SYS_openat, AT_FDCWD, path, flags, mode));
}

mode_t mode_in(int flags, va_list rest) {
  return (flags & O_CREAT) != 0 ? va_arg(rest, mode_t) : 0;
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

extern "C" int open(const char* path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  auto mode = mode_in(flags, rest);
  va_end(rest);
  return open_in_time(path, flags, mode);
}

extern "C" int open64(const char* path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  auto mode = mode_in(flags, rest);
  va_end(rest);
  return open_in_time(path, flags, mode);
}
