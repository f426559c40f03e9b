#pragma once
// What the actors that compute, score and load are made of. A plain value.

#include "actors/worker/inner_state.hpp"
#include "config/text/settings.hpp"
#include "data/dataset.hpp"
#include "messages/payload.hpp"
#include "messages/payload_memory.hpp"
#include "models/engine/segment_plan.hpp"

#include <memory>
#include <string>
#include <vector>

namespace troupe {

/// What all computing actors of a process share.
struct computing_parts {
  config::settings settings;
  data::dataset_pair data;
  int threads = 1; ///< Intra-op threads of each computing thread.
  /// The memory that gradients are computed into.
  payload_memory_ptr memory = heap_memory();
  /// Where the workers of one process have files of their own: the training set
  /// of each, by rank. Else empty.
  std::vector<std::shared_ptr<const data::dataset>> own_data{};
  payload frozen{}; ///< Weights that are not trained; empty if all are.
  /// How the network is cut; null: each worker has all of it in one piece.
  std::shared_ptr<const models::segment_plan> plan{};
  /// Where a worker's replicas compute, in turn; empty: all of them do so on
  /// the device of the settings.
  std::vector<std::string> replica_devices{};
  /// Where workers save what they carry from one gradient to the next.
  worker_store carried{};
};

/// The state of the own optimiser of a worker made of these parts; null: it
/// makes no local steps.
inner_state_ptr make_inner_state(const computing_parts& of);

} // namespace troupe
