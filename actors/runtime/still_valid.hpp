#pragma once
// Guards response handlers against answers that come too late. Used in the
// states of actors, on their own thread.

#include <cstdint>
#include <utility>

namespace troupe {

namespace detail {

template <class F, class... Args>
auto guard_handler(const uint64_t& counter, F f, void (F::*)(Args...) const) {
  return [&counter, then = counter, f = std::move(f)](Args... xs) {
    if (counter == then)
      f(std::forward<Args>(xs)...);
  };
}

} // namespace detail

/// Wraps the handler of a response so that it does nothing once `counter` has
/// changed: answers to requests of an earlier life are ignored. `counter` is a
/// member of the actor's state, so it outlives the handler.
template <class F>
auto while_unchanged(const uint64_t& counter, F f) {
  return detail::guard_handler(counter, std::move(f), &F::operator());
}

} // namespace troupe
