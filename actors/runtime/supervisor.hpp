#pragma once
// The supervisor: the only actor of a process that main knows. It tells main
// how this process's part of the run ended, passes signals on to the actors,
// and ends the process when an actor dies that is indispensable.
//
// An actor; one in each process, made before the others.

#include "messages/interfaces.hpp"

#include <functional>
#include <string>
#include <vector>

namespace troupe {

/// An actor that the process needs: its death ends the process.
struct core_actor {
  std::string name; ///< For the user, such as "parameter server".
  caf::actor_addr address;
};

struct supervisor_parts {
  std::function<void(const run_end&)> on_end; ///< Called once, on any thread.
};

class supervisor_state {
public:
  using pointer = supervisor_actor::stateful_pointer<supervisor_state>;

  static constexpr const char* name = "troupe.supervisor";

  supervisor_state(pointer self, supervisor_parts parts);

  supervisor_actor::behavior_type make_behavior();

private:
  void watch(const std::string& name, const caf::strong_actor_ptr& who);
  void down(const caf::down_msg& msg);
  void end(const run_end& how);

  pointer self_;
  supervisor_parts parts_;
  std::vector<core_actor> core_;
};

/// Puts an actor under the supervisor. `name` is for the user.
template <class Handle>
void put_under(const supervisor_actor& supervisor, const std::string& name,
               const Handle& who) {
  caf::anon_send(supervisor, supervise_atom_v, name,
                 caf::actor_cast<caf::strong_actor_ptr>(who));
}

} // namespace troupe
