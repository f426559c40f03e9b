// Loaded before the C library (LD_PRELOAD): no socket of the program gets
// larger buffers than 64 KiB.

#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>

extern "C" int setsockopt(int socket, int level, int name, const void* value,
                          socklen_t size) noexcept {
  int bytes = 0;
  if (level == SOL_SOCKET && (name == SO_SNDBUF || name == SO_RCVBUF)) {
    // The kernel doubles what it is asked for.
    bytes = std::min(*static_cast<const int*>(value), 32 << 10);
    value = &bytes;
  }
  return static_cast<int>(
    syscall(SYS_setsockopt, socket, level, name, value, size));
}
