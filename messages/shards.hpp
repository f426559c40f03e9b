#pragma once
// What the lead and shards in processes of their own say to each other. A part
// of types.hpp. Plain values.

#include "messages/ids.hpp"
#include "messages/real.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace troupe {

/// Names one request (a push or a pull) of a worker. The worker sends it to all
/// shards.
struct request_id {
  worker_id worker;
  incarnation life;
  sequence number;

  constexpr auto operator<=>(const request_id&) const = default;
};

/// A shard tells the lead that its part of a request has arrived.
struct part_report {
  shard_id shard;
  request_id request;
  push_id gradient;  ///< Of a push; its `seq` is 0 in a pull.
  bool sound = true; ///< All numbers of the part are finite.
};

/// The order to a remote shard to make one step.
struct shard_step {
  version makes;
  std::vector<push_id> gradients; ///< In the order of the sum.
  /// The weight of each gradient in the mean: its samples times the factor that
  /// the policy gave it.
  std::vector<real> shares;
  real lr;        ///< Learning rate of this step.
  real scale = 1; ///< Of the mean, where its norm is limited.
};

/// The squares of a shard's part of a step's mean gradient: numbers whose exact
/// sum they are (models/optim/exact_sum.hpp).
struct shard_squares {
  std::vector<real> parts;
};

/// Describes the state of a shard at one version. Its payload holds the shard's
/// range of the weights and, `with_slots`, the same range of each of the
/// optimiser's slots.
struct shard_state {
  version weights;
  uint64_t optimizer_steps = 0;
  bool with_slots = false;
  /// The elements without weight decay: first and end of each range.
  std::vector<uint64_t> without_decay;
  uint64_t first = 0; ///< Where its range of the parameters begins.
};

/// Where parameters lie in a file, one after the other.
struct file_part {
  uint64_t first = 0; ///< Of all parameters.
  uint64_t count = 0;
  uint64_t at = 0; ///< Bytes in the file before them.
};

/// Where numbers of a shard belong: parts of the draft of a file
/// (models/storage/tensor_draft.hpp).
struct file_place {
  std::string file;
  std::vector<file_part> parts;
};

/// What the lead wants of a shard's state, at the current version: its range of
/// the weights, and of each of the optimiser's slots. A shard that can write
/// them to where they belong does; one that cannot, since the files are on
/// another host, sends them in chunks. Without files it sends its weights.
struct state_request {
  file_place weights;
  file_place slots; ///< A part for each of them.
};

template <class Inspector>
bool inspect(Inspector& f, request_id& x) {
  return f.object(x).fields(f.field("worker", x.worker),
                            f.field("life", x.life),
                            f.field("number", x.number));
}

template <class Inspector>
bool inspect(Inspector& f, part_report& x) {
  return f.object(x).fields(
    f.field("shard", x.shard), f.field("request", x.request),
    f.field("gradient", x.gradient), f.field("sound", x.sound));
}

template <class Inspector>
bool inspect(Inspector& f, shard_step& x) {
  return f.object(x).fields(f.field("makes", x.makes),
                            f.field("gradients", x.gradients),
                            f.field("shares", x.shares), f.field("lr", x.lr),
                            f.field("scale", x.scale));
}

template <class Inspector>
bool inspect(Inspector& f, shard_squares& x) {
  return f.object(x).fields(f.field("parts", x.parts));
}

template <class Inspector>
bool inspect(Inspector& f, shard_state& x) {
  return f.object(x).fields(f.field("weights", x.weights),
                            f.field("optimizer_steps", x.optimizer_steps),
                            f.field("with_slots", x.with_slots),
                            f.field("without_decay", x.without_decay),
                            f.field("first", x.first));
}

template <class Inspector>
bool inspect(Inspector& f, file_part& x) {
  return f.object(x).fields(f.field("first", x.first),
                            f.field("count", x.count), f.field("at", x.at));
}

template <class Inspector>
bool inspect(Inspector& f, file_place& x) {
  return f.object(x).fields(f.field("file", x.file), f.field("parts", x.parts));
}

template <class Inspector>
bool inspect(Inspector& f, state_request& x) {
  return f.object(x).fields(f.field("weights", x.weights),
                            f.field("slots", x.slots));
}

} // namespace troupe
