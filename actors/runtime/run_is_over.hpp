#pragma once
// The errors that actors answer with when the run is over, and when only this
// life of its server is. Thread-safe: values.

#include "messages/error.hpp"

#include <caf/error.hpp>

#include <string>

namespace troupe {

inline caf::error run_is_over() {
  return caf::make_error(errc::shutting_down, std::string{"the run is over"});
}

/// The life has failed. The run is not over: its nodes look for the next life.
inline caf::error life_is_over() {
  return caf::make_error(errc::peer_lost,
                         std::string{"this life of the server is over"});
}

} // namespace troupe
