#include "apps/launch/signal_file.hpp"

#include <sys/signalfd.h>
#include <unistd.h>

#include <chrono>
#include <csignal>

namespace troupe::app {

signal_file::signal_file() {
  auto wanted = stop_signals();
  sigaddset(&wanted, SIGCHLD);
  sigprocmask(SIG_BLOCK, &wanted, nullptr);
  file_ = config::descriptor{signalfd(-1, &wanted, SFD_CLOEXEC | SFD_NONBLOCK)};
}

std::vector<stop_requests::meaning> signal_file::taken() {
  std::vector<stop_requests::meaning> out;
  signalfd_siginfo one{};
  while (read(file_.get(), &one, sizeof one) == sizeof one)
    if (one.ssi_signo != SIGCHLD)
      out.push_back(asked_.interpret_signal(static_cast<int>(one.ssi_signo),
                                            std::chrono::steady_clock::now()));
  return out;
}

} // namespace troupe::app
