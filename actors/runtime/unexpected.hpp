#pragma once
// What becomes of an actor whose handler throws what nobody has foreseen: no
// memory, no thread, an error of a library. Without more, the actor ends, and
// only whoever watches it learns of that.

#include "config/text/one_line.hpp"
#include "messages/error.hpp"

#include <exception>
#include <utility>

namespace troupe {

/// Calls `tell` with a line for the user; then the actor ends with that line.
/// To be called when the state is made, since its first handler may throw.
template <class Self, class F>
void on_unexpected(Self* self, F tell) {
  self->set_exception_handler(
    [tell = std::move(tell)](std::exception_ptr& what) -> caf::error {
      auto line = one_line(what);
      tell(line);
      return caf::make_error(errc::failed, std::move(line));
    });
}

} // namespace troupe
