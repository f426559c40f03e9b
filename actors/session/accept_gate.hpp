#pragma once
// Shuts the port on which the admission is published while the process is
// short of file descriptors, and opens it again when some are free. Without it
// CAF's listener would try to accept the next connection over and over, at full
// load, and the run would lack the files that it needs itself. Nodes that find
// the port shut try again.
//
// One beside each admission, with which it ends.

#include "messages/interfaces.hpp"
#include "messages/transport/wire/descriptor_limit.hpp"

#include <cstddef>
#include <functional>
#include <string>

namespace troupe {

using accept_gate_actor = caf::typed_actor<
  // Looks whether there are descriptors.
  result<void>(tick_atom)>;

/// Whether the port should be open. One that is shut opens a little later than
/// an open one shuts, so that the next node does not shut it at once.
/// @param left Files that may still be opened, of `most`.
bool should_accept(bool open, size_t left, size_t most);

struct accept_gate_parts {
  admission_actor door; ///< Published there already.
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
  bool busy_ = false; ///< The middleman has not answered.
  bool told_ = false; ///< That the port cannot be opened again.
};

} // namespace troupe
