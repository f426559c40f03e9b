#include "apps/launch/orphans.hpp"

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <string>

namespace troupe::app {

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

} // namespace troupe::app
