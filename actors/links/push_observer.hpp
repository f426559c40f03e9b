#pragma once
// Observes a worker's end of a link: is told of each gradient that is sent, and
// of its outcome. Only runs under the virtual clock have one, the invariant
// checker; it is called on their only thread.

#include "messages/types.hpp"

#include <caf/error.hpp>

namespace troupe {

class push_observer {
public:
  virtual ~push_observer() = default;

  /// A worker has sent a gradient.
  virtual void pushed(const push_header& header) = 0;

  /// The worker has read that the server took the gradient, in this answer.
  virtual void acknowledged(const push_header& header,
                            const release_header& answer) = 0;

  /// The gradient was not taken, for this reason.
  virtual void turned_away(const push_header& header,
                           const caf::error& why) = 0;
};

} // namespace troupe
