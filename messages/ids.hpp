#pragma once
// Strong ids: the things that the messages name, as numbers of distinct types.
// Plain values. Only the standard library is included, so that the pure
// decision cores (actors/core) can use this file.

#include <compare>
#include <cstdint>
#include <functional>
#include <string>

namespace troupe {

/// A number that cannot be confused with a number of another kind.
template <class Tag, class Rep>
struct strong_id {
  using rep = Rep;

  Rep value{};

  constexpr strong_id() = default;

  constexpr explicit strong_id(Rep x) : value(x) {
    // nop
  }

  constexpr auto operator<=>(const strong_id&) const = default;

  constexpr strong_id next() const {
    return strong_id{static_cast<Rep>(value + 1)};
  }
};

template <class Tag, class Rep>
std::string to_string(strong_id<Tag, Rep> x) {
  return std::to_string(x.value);
}

/// CAF's inspection protocol; on the wire an id is its bare number.
template <class Inspector, class Tag, class Rep>
bool inspect(Inspector& f, strong_id<Tag, Rep>& x) {
  return f.apply(x.value);
}

/// Rank of a worker in the cluster: 0, 1, ... A returning worker keeps the rank
/// when it is free and gets a new life.
using worker_id = strong_id<struct worker_tag, uint32_t>;

/// Rank of a parameter server shard; shard 0 is the lead.
using shard_id = strong_id<struct shard_tag, uint32_t>;

/// Number of a set of weights: 0 before the first step, +1 with each step (one
/// update of the weights). A version, once published, never changes.
using version = strong_id<struct version_tag, uint64_t>;

/// Counts the lives of a worker rank, or of a parameter server.
using life_number = strong_id<struct life_number_tag, uint32_t>;

/// The name of `life_number` before 0.2.0, kept for policies from outside.
using incarnation = life_number;

/// Numbers the pushes of one life of a worker: 1, 2, ...
using sequence = strong_id<struct sequence_tag, uint64_t>;

/// Identifies a lease: a range of samples handed to one worker. Unique within
/// one life of the parameter server.
using lease_id = strong_id<struct lease_tag, uint64_t>;

/// Numbers a tensor transfer on one link.
using transfer_id = strong_id<struct transfer_tag, uint64_t>;

/// Identifies one gradient within one life of the parameter server: applied at
/// most once.
struct push_id {
  worker_id worker;
  life_number life;
  sequence seq;

  constexpr auto operator<=>(const push_id&) const = default;
};

inline std::string to_string(const push_id& x) {
  return to_string(x.worker) + "." + to_string(x.life) + "#" + to_string(x.seq);
}

template <class Inspector>
bool inspect(Inspector& f, push_id& x) {
  return f.object(x).fields(f.field("worker", x.worker),
                            f.field("life", x.life), f.field("seq", x.seq));
}

} // namespace troupe

template <class Tag, class Rep>
struct std::hash<troupe::strong_id<Tag, Rep>> {
  size_t operator()(const troupe::strong_id<Tag, Rep>& x) const noexcept {
    return std::hash<Rep>{}(x.value);
  }
};
