#pragma once
// Handles unexpected exceptions in an actor's handlers: no memory, no thread,
// an error of a library. By default the actor would end, and only actors that
// monitor it would learn why.
//
// Called in the constructor of an actor's state; the callback runs on the
// actor's thread.

#include "config/text/one_line.hpp"
#include "messages/error.hpp"

#include <exception>
#include <utility>

namespace troupe {

/// Calls `tell` with a line for the user; then the actor ends with that line.
/// To be called when the state is constructed, because the first handler may
/// throw.
template <class Self, class F>
void on_unexpected(Self* self, F tell) {
  self->set_exception_handler(
    [tell = std::move(tell)](std::exception_ptr& error) -> caf::error {
      auto line = one_line(error);
      tell(line);
      return caf::make_error(errc::failed, std::move(line));
    });
}

} // namespace troupe
