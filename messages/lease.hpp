#pragma once

#include "messages/ids.hpp"

namespace troupe {

/// A range of an epoch's samples, handed to one worker: the positions
/// [first, first + count) of the epoch's order. Where each rank has a part of
/// the data to itself, of the order of `part`.
struct lease {
  lease_id id;
  uint64_t epoch = 0;
  uint64_t first = 0;
  uint64_t count = 0;
  uint32_t part = 0; ///< The rank whose samples these are; 0 if all share.

  bool operator==(const lease&) const = default;
};

template <class Inspector>
bool inspect(Inspector& f, lease& x) {
  return f.object(x).fields(f.field("id", x.id), f.field("epoch", x.epoch),
                            f.field("first", x.first),
                            f.field("count", x.count), f.field("part", x.part));
}

/// What a worker with files of its own tells of its samples for training.
struct owned_data {
  uint64_t samples = 0; ///< 0: it has none of its own.
  uint64_t digest = 0;  ///< Of their labels, in order.

  bool operator==(const owned_data&) const = default;
};

template <class Inspector>
bool inspect(Inspector& f, owned_data& x) {
  return f.object(x).fields(f.field("samples", x.samples),
                            f.field("digest", x.digest));
}

} // namespace troupe
