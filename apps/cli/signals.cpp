#include "apps/cli/signals.hpp"

#include "actors/recording/log_lines.hpp"
#include "config/text/failure.hpp"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <system_error>

namespace troupe::app {

namespace {

/// Between two calls of `now_and_then`.
constexpr std::chrono::seconds pause{5};

int open_signals() {
  auto set = stop_signals();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  std::signal(SIGPIPE, SIG_IGN); // A lost peer must not end the process.
  std::signal(SIGXFSZ, SIG_IGN); // A limit is reported as an error, too.
  return signalfd(-1, &set, SFD_CLOEXEC);
}

void notify(int event) {
  uint64_t one = 1;
  if (write(event, &one, sizeof one) < 0)
    std::abort();
}

} // namespace

signal_pump::signal_pump()
  : signals_(open_signals()), ended_(eventfd(0, EFD_CLOEXEC)),
    watched_(eventfd(0, EFD_CLOEXEC)) {
  if (signals_ < 0 || ended_ < 0 || watched_ < 0)
    throw run_error("cannot watch for signals: no file descriptors left");
  try {
    watch_ = std::thread{[this] {
      watch_start();
    }};
  } catch (const std::system_error&) {
    // Without this thread a signal waits until the run has begun.
  }
}

signal_pump::~signal_pump() {
  begun();
  close(signals_);
  close(ended_);
  close(watched_);
}

// Exits at once, whatever the start is doing: a loss of power could interrupt
// it, too.
void signal_pump::watch_start() const {
  pollfd what[] = {{signals_, POLLIN, 0}, {watched_, POLLIN, 0}};
  while (poll(what, 2, -1) < 0)
    continue;
  if (what[1].revents != 0)
    return;
  auto line = recording::log_lines::of_process().make(
    "trainer_node: stopped by a signal before the run began");
  std::fputs(line.c_str(), stderr);
  std::_Exit(static_cast<int>(exit_status::try_again));
}

void signal_pump::begun() {
  if (!watch_.joinable())
    return;
  notify(watched_);
  watch_.join();
}

void signal_pump::end(const run_end& how) {
  std::unique_lock guard{mutex_};
  if (over_)
    return;
  over_ = true;
  how_ = how;
  notify(ended_);
}

bool signal_pump::arrived() {
  begun();
  pollfd what{signals_, POLLIN, 0};
  return poll(&what, 1, 0) > 0 && take_signal() != 0;
}

/// Reads a signal; returns its number, or 0 if there was none.
int signal_pump::take_signal() {
  signalfd_siginfo info{};
  if (read(signals_, &info, sizeof info) != sizeof info)
    return 0;
  auto number = static_cast<int>(info.ssi_signo);
  auto what = asked_.interpret_signal(number, std::chrono::steady_clock::now());
  if (what == stop_requests::meaning::haste && number == SIGINT)
    std::_Exit(static_cast<int>(exit_status::interrupted));
  return number;
}

run_end signal_pump::wait(const std::function<void(int)>& stop,
                          const std::function<void()>& now_and_then) {
  using clock = std::chrono::steady_clock;
  begun();
  auto next = clock::now() + pause;
  for (;;) {
    pollfd what[] = {{signals_, POLLIN, 0}, {ended_, POLLIN, 0}};
    auto left =
      std::chrono::ceil<std::chrono::milliseconds>(next - clock::now());
    auto found = poll(what, 2, std::max(0, static_cast<int>(left.count())));
    if (clock::now() >= next) {
      now_and_then();
      next = clock::now() + pause;
    }
    if (found <= 0)
      continue;
    if (what[1].revents != 0) {
      std::unique_lock guard{mutex_};
      return how_;
    }
    auto again = asked_.any();
    if (auto number = take_signal(); number != 0 && !again)
      stop(number);
  }
}

} // namespace troupe::app
