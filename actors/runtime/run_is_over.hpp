#pragma once
// The error that actors answer with when the run is over. Thread-safe: a value.

#include "messages/error.hpp"

#include <caf/error.hpp>

#include <string>

namespace troupe {

inline caf::error run_is_over() {
  return caf::make_error(errc::shutting_down, std::string{"the run is over"});
}

} // namespace troupe
