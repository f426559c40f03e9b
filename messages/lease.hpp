#pragma once
// What the parameter server tells a worker about the samples to compute on, and
// what a worker tells the server about its own data. Plain values, part of
// messages.

#include "messages/ids.hpp"

namespace troupe {

/// A range of an epoch's samples, given to one worker: the positions [first,
/// first + count) in the order of that epoch. Where each rank has its own part
/// of the data, it is the order of the samples of `part`.
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

/// The part of a lease's samples that one replica of a worker computes.
struct replica_part {
  uint64_t first = 0; ///< Of its samples, in the order of the lease.
  uint64_t count = 0;
  uint64_t of = 0; ///< Samples of all replicas; 0: one replica has them all.
};

/// What a worker that has files of its own tells about its training samples.
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
