#pragma once
// What the lead and shards in processes of their own say to each other. A part
// of types.hpp. Plain values.

#include "config/values/address.hpp"
#include "config/values/staleness_rule.hpp"
#include "messages/error.hpp"
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
  life_number life;
  sequence number;

  constexpr auto operator<=>(const request_id&) const = default;
};

/// A shard tells the lead that its part of a request has arrived, and whether
/// it can use it.
struct part_report {
  shard_id shard;
  request_id request;
  push_id gradient;          ///< Of a push; its `seq` is 0 in a pull.
  errc refused = errc::none; ///< Why the shard has not taken its part.
  /// The sum of the squares of its part, where norms are watched: numbers that
  /// add up to it exactly (models/optim/exact_sum.hpp).
  std::vector<real> squares{};
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
  /// The factor of each parameter's step, by its number in the whole, if the
  /// optimiser has such factors.
  std::vector<real> factors = {};
  real momentum = -1; ///< Below 0: that of the step before.
  config::momentum_use use{};
};

/// The sum of the squares of a shard's part of a step's mean gradient, as
/// numbers that add up to it exactly (models/optim/exact_sum.hpp).
struct shard_squares {
  std::vector<real> parts;
};

/// The squares of a shard's part of a parameter: of its weights, and of its
/// step without learning rate and factor.
struct measured_parameter {
  uint32_t parameter = 0; ///< Its number in the whole.
  shard_squares weights;
  shard_squares step;
};

/// A shard's part of the norms that decide on the factors of a step.
struct shard_measures {
  std::vector<measured_parameter> parameters;
};

/// What parameters of a group have of their own (models/optim/groups.hpp).
struct shard_group_terms {
  real lr_factor = 1;
  real weight_decay;
  real momentum;
};

/// A part of a parameter in a shard's range, up to element `end`.
struct shard_group_part {
  uint64_t end = 0;
  uint32_t parameter = 0;
  uint32_t group = 0;
};

/// Describes the state of a shard at one version. Its payload holds the shard's
/// range of the weights and, `with_slots`, the same range of each of the
/// optimiser's slots.
struct shard_state {
  version weights;
  uint64_t optimizer_steps = 0;
  bool with_slots = false;
  std::vector<shard_group_terms> groups;
  std::vector<shard_group_part> parts;
  uint64_t first = 0; ///< Where its range of the parameters begins.
  /// The optimiser's steps of each fragment, where there are several.
  std::vector<uint64_t> fragment_steps{};
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

/// Asks for a shard's state at the current version: its range of the weights,
/// and of each of the optimiser's slots. The shard writes them to these files;
/// if it cannot, since the files are on another host, it sends them in chunks.
/// If no files are named, it sends its weights, followed by their average if
/// that is wanted.
struct state_request {
  file_place weights;
  file_place slots; ///< A part for each of them.
  bool average = false;
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
    f.field("gradient", x.gradient), f.field("refused", x.refused),
    f.field("squares", x.squares));
}

template <class Inspector>
bool inspect(Inspector& f, shard_step& x) {
  return f.object(x).fields(
    f.field("makes", x.makes), f.field("gradients", x.gradients),
    f.field("shares", x.shares), f.field("lr", x.lr), f.field("scale", x.scale),
    f.field("factors", x.factors), f.field("momentum", x.momentum),
    f.field("use", x.use));
}

template <class Inspector>
bool inspect(Inspector& f, shard_squares& x) {
  return f.object(x).fields(f.field("parts", x.parts));
}

template <class Inspector>
bool inspect(Inspector& f, measured_parameter& x) {
  return f.object(x).fields(f.field("parameter", x.parameter),
                            f.field("weights", x.weights),
                            f.field("step", x.step));
}

template <class Inspector>
bool inspect(Inspector& f, shard_measures& x) {
  return f.object(x).fields(f.field("parameters", x.parameters));
}

template <class Inspector>
bool inspect(Inspector& f, shard_group_terms& x) {
  return f.object(x).fields(f.field("lr_factor", x.lr_factor),
                            f.field("weight_decay", x.weight_decay),
                            f.field("momentum", x.momentum));
}

template <class Inspector>
bool inspect(Inspector& f, shard_group_part& x) {
  return f.object(x).fields(f.field("end", x.end),
                            f.field("parameter", x.parameter),
                            f.field("group", x.group));
}

template <class Inspector>
bool inspect(Inspector& f, shard_state& x) {
  return f.object(x).fields(
    f.field("weights", x.weights),
    f.field("optimizer_steps", x.optimizer_steps),
    f.field("with_slots", x.with_slots), f.field("groups", x.groups),
    f.field("parts", x.parts), f.field("first", x.first),
    f.field("fragment_steps", x.fragment_steps));
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
                            f.field("slots", x.slots),
                            f.field("average", x.average));
}

} // namespace troupe

namespace troupe::config {

template <class Inspector>
bool inspect(Inspector& f, address& x) {
  return f.object(x).fields(f.field("host", x.host), f.field("port", x.port));
}

template <class Inspector>
bool inspect(Inspector& f, momentum_use& x) {
  return f.object(x).fields(f.field("decays", x.decays),
                            f.field("moves", x.moves));
}

} // namespace troupe::config
