#pragma once

#include "messages/payload.hpp"
#include "messages/proto/manifest.pb.h"
#include "messages/types.hpp"
#include "models/flat_layout.hpp"

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

} // namespace troupe
