#pragma once
// How the processes of a launch are, in the line for its terminal. Pure; any
// thread.

#include <span>
#include <string>

namespace troupe::app {

struct node_state {
  std::string name;      ///< "worker-2"
  std::string host;      ///< Empty: this machine.
  std::string trouble{}; ///< "starts again"; empty: it runs as it should.
};

/// "all 4 run", or "3 of 4 run; worker-2 (10.0.0.3) starts again". No longer
/// than so many columns: of several the last ones are counted.
std::string states_line(std::span<const node_state> all, size_t columns);

} // namespace troupe::app
