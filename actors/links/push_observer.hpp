#pragma once
// Who looks on at a worker's end of a link: told of each gradient that is sent,
// and of what became of it. Only runs under the virtual clock have one; it is
// called on their one thread.

#include "messages/types.hpp"

#include <caf/error.hpp>

namespace troupe {

class push_observer {
public:
  virtual ~push_observer() = default;

  /// A worker has sent a gradient.
  virtual void pushed(const push_header& what) = 0;

  /// It has read that the server took it, with this answer.
  virtual void acknowledged(const push_header& what,
                            const release_header& answer) = 0;

  /// The gradient came to nothing, for this reason.
  virtual void turned_away(const push_header& what, const caf::error& why) = 0;
};

} // namespace troupe
