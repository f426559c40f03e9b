#pragma once
// Closes the port on which the admission is published while the process is
// short of file descriptors, and opens it again when some are free. Otherwise
// CAF's listener would retry the next connection in a busy loop, and the run
// would lack the descriptors that it needs itself. Nodes that find the port
// closed try again later.
//
// An actor; one beside each admission, and it ends with it.

#include "messages/interfaces.hpp"
#include "messages/transport/wire/descriptor_limit.hpp"

#include <cstddef>
#include <functional>
#include <string>

namespace troupe {

/// Whether the port should be open. The limit for opening is higher than that
/// for closing, so that the next node does not close it at once.
/// @param left Files that may still be opened, of `most`.
bool should_accept(bool open, size_t left, size_t most);

struct accept_gate_parts {
  admission_actor admission; ///< Already published on the port.
  std::string host;
  uint16_t port = 0;
  std::function<void(const std::string&)> say;
};

class accept_gate_state {
public:
  using pointer = accept_gate_actor::stateful_pointer<accept_gate_state>;

  static constexpr const char* name = "troupe.accept-gate";

  accept_gate_state(pointer self, accept_gate_parts parts);

  accept_gate_actor::behavior_type make_behavior();

private:
  void look();
  void shut(size_t left);
  void open();

  pointer self_;
  accept_gate_parts parts_;
  transport::descriptor_limit files_;
  bool open_ = true;
  bool busy_ = false; ///< Waits for the middleman's answer.
  bool told_ = false; ///< Has reported that reopening fails.
};

} // namespace troupe
