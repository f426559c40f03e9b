#pragma once
// A node whose computing is four times slower than that of the others, on a
// core of its own. A busy loop has three quarters of that core beside the
// node's computing thread; all other threads of the node come before both, so
// only computing is slow. Whoever starts the nodes owns it; one thread.

#include "bench/child.hpp"

#include <memory>
#include <string>
#include <vector>

namespace troupe::bench {

class slow_node {
public:
  /// Starts the busy loop. Throws `run_error` on a machine with one core.
  slow_node();

  /// A command on the core of the other nodes, or of the slow one.
  std::vector<std::string>
  beside(bool slow, const std::vector<std::string>& command) const;

  /// Slows down the computing of this process, once it is seen to compute.
  static void slow_down(pid_t process);

private:
  std::vector<int> cores_;
  std::unique_ptr<child> busy_;
};

} // namespace troupe::bench
