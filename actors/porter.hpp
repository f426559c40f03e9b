#pragma once
// Keeps the door of this process open while there are file descriptors to
// spare, and shut while there are not. What listens for actor connections would
// look for the next caller without a rest when none can be taken in, and the
// run needs some files for itself. Nodes that find the door shut try again.
//
// One beside each doorkeeper, with which it ends.

#include "messages/interfaces.hpp"
#include "messages/transport/descriptor_limit.hpp"

#include <cstddef>
#include <functional>
#include <string>

namespace troupe {

using porter_actor = caf::typed_actor<
  // Looks whether there are descriptors.
  result<void>(tick_atom)>;

/// Whether a door that is open, or not, should be open.
/// @param left Files that may still be opened, of `most`.
bool opens_door(bool open, size_t left, size_t most);

struct porter_parts {
  doorkeeper_actor door; ///< Published there already.
  std::string host;
  uint16_t port = 0;
  std::function<void(const std::string&)> say;
};

class porter_state {
public:
  using pointer = porter_actor::stateful_pointer<porter_state>;

  static constexpr const char* name = "troupe.porter";

  porter_state(pointer self, porter_parts parts);

  porter_actor::behavior_type make_behavior();

private:
  void look();
  void shut(size_t left);
  void open();

  pointer self_;
  porter_parts parts_;
  transport::descriptor_limit files_;
  bool open_ = true;
  bool busy_ = false; ///< Whoever opens and shuts has not answered.
  bool told_ = false; ///< That the door cannot be opened.
};

} // namespace troupe
