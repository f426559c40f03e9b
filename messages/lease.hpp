#pragma once

#include "messages/ids.hpp"

namespace troupe {

/// A range of an epoch's samples, handed to one worker: the positions
/// [first, first + count) of the epoch's permutation.
struct lease {
  lease_id id;
  uint64_t epoch = 0;
  uint64_t first = 0;
  uint64_t count = 0;

  bool operator==(const lease&) const = default;
};

template <class Inspector>
bool inspect(Inspector& f, lease& x) {
  return f.object(x).fields(f.field("id", x.id), f.field("epoch", x.epoch),
                            f.field("first", x.first),
                            f.field("count", x.count));
}

} // namespace troupe
