#pragma once
// What is ordered before what on a fake device: one clock for each stream and
// one for the host, each a vector of how far it has seen every stream (Fidge
// 1988, Mattern 1989). Work is done at once, but nobody may count on that: an
// access that no event orders behind the one before it is reported, in every
// run and not by luck.
//
// All threads of the host count as one: what one of them has waited for all
// know. Not thread-safe; the fake device has one lock.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace troupe::testing::fake {

using stream_number = uint32_t;

/// By stream, how many of its operations are known to be over.
using clock = std::vector<uint64_t>;

void join(clock& to, const clock& from);

/// The n-th operation of a stream.
struct moment {
  stream_number stream = 0;
  uint64_t tick = 0;
  std::string action;
};

bool is_before(const moment& x, const clock& by);

class order {
public:
  /// Begins an operation, behind all earlier ones of its stream and what the
  /// host knows.
  moment begin(stream_number which, std::string action);

  /// What a stream has seen, its own operations included.
  clock& of(stream_number which);

  const clock& host() const { return host_; }

  /// The host has waited for all that this clock has seen.
  void host_waits_for(const clock& seen) { join(host_, seen); }

private:
  std::vector<clock> streams_;
  clock host_;
};

/// The accesses to one block of memory that others must be ordered behind.
class access_history {
public:
  /// Adds an access to these bytes by the operation `now`, which has seen
  /// `knows`.
  /// @returns what it is not ordered behind; empty if all is well.
  std::string add(size_t first, size_t last, bool writes, const moment& now,
                  const clock& knows);

  /// An access to the bytes from `first` to before `last`.
  struct access {
    size_t first, last;
    bool writes;
    moment when;
  };

  /// Those of which somebody who has seen `by` does not know that they are
  /// over.
  std::vector<access> open_for(const clock& by) const;

  void clear() { all_.clear(); }

private:
  std::vector<access> all_;
};

} // namespace troupe::testing::fake
