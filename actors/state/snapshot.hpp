#pragma once

#include "messages/payload.hpp"
#include "messages/proto/manifest.pb.h"
#include "messages/types.hpp"
#include "models/layout/flat_layout.hpp"

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace troupe {

/// Everything that a checkpoint holds, at one version. Immutable.
struct snapshot {
  /// A slot of the optimiser, in the layout of the parameters.
  struct slot {
    std::string name;
    payload flat;
  };

  proto::Manifest manifest; ///< All but what the writer fills in.
  std::shared_ptr<const models::flat_layout> layout; ///< Null: no tensors.
  payload weights;
  std::vector<slot> slots;
  /// Set: no checkpoint, but the weights of the best score so far.
  std::optional<score> best;
};

/// Digest of all that training has made, as 64 hex digits: SHA-256 over the
/// parameters, the running statistics and each slot of the optimiser, each in
/// the order of the state dict and in its own type; nothing without tensors.
std::optional<std::string> state_sha256(const snapshot& what);

/// The name of the first tensor with a number that is not finite; nothing when
/// there is none.
std::optional<std::string> not_finite_in(const snapshot& what);

} // namespace troupe
