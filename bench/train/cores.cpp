#include "bench/train/cores.hpp"

#include <sched.h>

namespace troupe::bench {

std::vector<int> allowed_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<int> out;
  if (sched_getaffinity(0, sizeof set, &set) == 0)
    for (int i = 0; i < CPU_SETSIZE; ++i)
      if (CPU_ISSET(i, &set))
        out.push_back(i);
  return out;
}

std::vector<std::string> on_core(int core,
                                 const std::vector<std::string>& command) {
  std::vector<std::string> out{"/usr/bin/env", "taskset", "-c",
                               std::to_string(core)};
  out.insert(out.end(), command.begin(), command.end());
  return out;
}

} // namespace troupe::bench
