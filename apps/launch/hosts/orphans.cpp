#include "apps/launch/hosts/orphans.hpp"

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <fstream>
#include <string>
#include <thread>

namespace troupe::app {

namespace {

/// How long orphans have to end after they were told to, and again after they
/// were killed.
constexpr auto patience_with_orphans = std::chrono::seconds(1);

} // namespace

void adopt_orphans() {
  prctl(PR_SET_CHILD_SUBREAPER, 1);
}

bool has_orphans() {
  siginfo_t who{};
  return waitid(P_ALL, 0, &who, WEXITED | WNOHANG | WNOWAIT) == 0;
}

void reap_orphans(const std::function<bool(pid_t)>& is_ours) {
  for (;;) {
    siginfo_t who{};
    auto found = waitid(P_ALL, 0, &who, WEXITED | WNOHANG | WNOWAIT);
    if (found != 0 || who.si_pid == 0 || is_ours(who.si_pid))
      return; // One of ours is first; somebody else reaps it.
    waitpid(who.si_pid, nullptr, WNOHANG);
  }
}

void kill_orphans(int signal) {
  auto self = std::to_string(getpid());
  std::ifstream all{"/proc/" + self + "/task/" + self + "/children"};
  for (pid_t one = 0; all >> one;)
    kill(one, signal);
}

void end_orphans() {
  using clock = std::chrono::steady_clock;
  auto end = clock::now() + patience_with_orphans;
  kill_orphans(SIGTERM);
  while (has_orphans() && clock::now() < end + patience_with_orphans) {
    if (clock::now() > end)
      kill_orphans(SIGKILL);
    reap_orphans([](pid_t) { return false; });
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

} // namespace troupe::app
