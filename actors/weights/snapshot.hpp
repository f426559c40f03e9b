#pragma once
// What a checkpoint is written from. Collected by the checkpoint schedule, then
// immutable and read by the checkpoint writer's thread.

#include "messages/payload.hpp"
#include "messages/proto/manifest.pb.h"
#include "messages/types.hpp"
#include "models/layout/flat_layout.hpp"
#include "models/storage/checkpoint.hpp"

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace troupe {

/// Everything that a checkpoint contains, at one version. Immutable.
struct snapshot {
  /// A slot of the optimiser, in the layout of the parameters.
  struct slot {
    std::string name;
    payload flat; ///< Empty if it lies in `drafts`.
  };

  proto::Manifest manifest; ///< Complete, except for the writer's entries.
  std::shared_ptr<const models::flat_layout> layout; ///< Null: no tensors.
  payload weights; ///< Empty if they lie in `drafts`.
  payload frozen;  ///< What is not trained of them; empty if all is.
  std::vector<slot> slots;
  /// The files themselves, where shards of other processes have the weights and
  /// the slots: nobody has memory for all.
  std::shared_ptr<models::checkpoint_drafts> drafts;
  /// If set, this is not for a checkpoint, but for the best weights so far.
  std::optional<score> best;
  /// If set, this is not for a checkpoint either: the settings of the run have
  /// changed. They go to config.ini, for which this is the text, and with the
  /// manifest's description to the newest checkpoint.
  std::optional<std::string> settings;
  /// Steps of earlier checkpoints that stay, however many newer ones there are.
  std::vector<uint64_t> stays;
};

/// A part of a flat payload as a named tensor: a view, no copy. Without a
/// payload it has no bytes.
models::named_tensor tensor_of(const models::parameter_slot& part,
                               config::scalar_type type, const payload& flat,
                               std::string key);

/// The weights as they are in a checkpoint: views of those that are in memory.
/// @param batches Seen by the running statistics; must outlive the result.
std::vector<models::named_tensor>
state_dict_of(const snapshot& state, const int64_t& batches, bool all_names);

/// The further names of tensors that have several.
models::tensor_metadata other_names_of(const snapshot& state);

/// The slots as they are in a checkpoint: views of those that are in memory.
std::vector<models::named_tensor> slots_of(const snapshot& state);

/// Where shards write their parts of the snapshot's drafts.
state_request places_in(const snapshot& state);

/// Digest of the weights alone, as in summary.json
/// (models/layout/flat_layout.hpp); nothing without tensors.
std::optional<std::string> weights_sha256(const snapshot& state);

/// Digest of the complete training state, as 64 hex digits: SHA-256 over the
/// parameters, the running statistics, each slot of the optimiser and what is
/// not trained, each in the order of the state dict and in its own type;
/// nothing without tensors.
std::optional<std::string> state_sha256(const snapshot& state);

/// The name of the first parameter, or slot of one, with a non-finite number;
/// nothing when there is none. Running statistics may have some from the
/// beginning (models/engine/statistics.hpp).
std::optional<std::string> not_finite_in(const snapshot& state);

} // namespace troupe
