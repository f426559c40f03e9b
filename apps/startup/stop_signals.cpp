#include "apps/startup/stop_signals.hpp"

namespace troupe::app {

sigset_t stop_signals() {
  sigset_t out;
  sigemptyset(&out);
  for (auto number : {SIGINT, SIGTERM, SIGUSR1})
    sigaddset(&out, number);
  struct sigaction of_terminal {};
  if (sigaction(SIGHUP, nullptr, &of_terminal) == 0 &&
      of_terminal.sa_handler != SIG_IGN)
    sigaddset(&out, SIGHUP);
  return out;
}

stop_requests::meaning stop_requests::interpret_signal(int signal,
                                                       time_point now) {
  constexpr auto of_a_person = std::chrono::milliseconds(100);
  if (!first_) {
    first_ = now;
    return meaning::stop;
  }
  auto insists = signal == SIGINT || signal == SIGTERM;
  return insists && now - *first_ >= of_a_person ? meaning::haste
                                                 : meaning::nothing;
}

} // namespace troupe::app
