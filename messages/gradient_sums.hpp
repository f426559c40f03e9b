#pragma once
// Gradients that were already summed on their way to the parameter server (by
// NCCL), as the lead sees them. Each worker's push of such a sum still arrives
// on its own, carrying the mean of all; these pushes count together or not at
// all. The implementation, transport/nccl/collective_coordinator.hpp, knows
// which pushes belong together and what to do when a sum does not count. The
// lead calls it from its actor. Thread-safe.

#include "messages/payload.hpp"
#include "messages/types.hpp"

#include <memory>
#include <optional>
#include <vector>

namespace troupe {

/// The sum that a push belongs to.
struct gradient_sum {
  uint64_t number = 0;
  bool over = false; ///< It does not count; its workers were told.
  std::vector<push_id> pushes;
};

class gradient_sums {
public:
  virtual ~gradient_sums() = default;

  /// The sum that this gradient carries; nothing if it is the worker's own
  /// gradient.
  virtual std::optional<gradient_sum> find(const push_id& which,
                                           const payload& gradient) = 0;

  /// The lead has accepted all pushes of the sum.
  virtual void note_accepted(uint64_t number) = 0;

  /// The lead accepts none of its pushes: each worker sends its own gradient
  /// instead. The lead's answers to these pushes are not passed on to the
  /// workers.
  virtual void give_up(uint64_t number) = 0;

  /// This life of the worker has left: it takes part in no sum that the
  /// lead has not accepted yet.
  virtual void left(worker_id who, life_number life) = 0;
};

using gradient_sums_ptr = std::shared_ptr<gradient_sums>;

} // namespace troupe
