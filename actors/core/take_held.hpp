#pragma once
// Takes what is held of a gradient out of a map, for whoever carries a decision
// out. A decision on a gradient that is not held is a fault of ours: it ends
// the run with one line instead of reading memory that is not there. Pure.

#include "messages/ids.hpp"

#include <stdexcept>
#include <string>
#include <utility>

namespace troupe::cores {

/// Throws `std::logic_error` when there is none of that id.
template <class Map>
typename Map::mapped_type take_held(Map& held, const push_id& id) {
  auto found = held.extract(id);
  if (!found)
    throw std::logic_error{"gradient " + to_string(id) +
                           " is decided on, but not held"};
  return std::move(found.mapped());
}

} // namespace troupe::cores
