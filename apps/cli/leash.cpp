#include "apps/cli/leash.hpp"

#include "messages/transport/wire/socket.hpp"

#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <thread>
#include <utility>

namespace troupe::app {

namespace {

constexpr const char* leash_variable = "TROUPE_LEASH";

/// Blocks all signals, so that a thread which starts meanwhile handles none.
class all_signals_blocked {
public:
  all_signals_blocked() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }

  ~all_signals_blocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

  all_signals_blocked(const all_signals_blocked&) = delete;
  all_signals_blocked& operator=(const all_signals_blocked&) = delete;

private:
  sigset_t before_{};
};

} // namespace

// Removes the variable, so that programs which this one starts do not watch
// that process, too: they depend on this one.
void take_leash() {
  const auto* given = std::getenv(leash_variable);
  auto pid = given ? std::atoi(given) : 0;
  unsetenv(leash_variable);
  if (pid <= 0)
    return;
  transport::descriptor process{
    static_cast<int>(syscall(SYS_pidfd_open, pid, 0))};
  if (!process) {
    if (errno == ESRCH)
      raise(SIGTERM);
    return;
  }
  all_signals_blocked during;
  std::thread{[process = std::move(process)] {
    pollfd one{process.get(), POLLIN, 0};
    while (poll(&one, 1, -1) < 0 && errno == EINTR) {
    }
    kill(getpid(), SIGTERM);
  }}.detach();
}

} // namespace troupe::app
