#pragma once
// Gradients that were added up on their way to the parameter server, as the
// lead sees them. The pushes of one sum come one by one, each with the mean of
// all; they count together or not at all. Which of them belong together, and
// what becomes of a sum that does not count, is known to whoever adds up
// (transport/collective_coordinator.hpp). Thread-safe.

#include "messages/payload.hpp"
#include "messages/types.hpp"

#include <memory>
#include <optional>
#include <vector>

namespace troupe {

/// What a push is part of.
struct gradient_sum {
  uint64_t number = 0;
  bool over = false; ///< It does not count, and its workers know.
  std::vector<push_id> pushes;
};

class gradient_sums {
public:
  virtual ~gradient_sums() = default;

  /// The sum that this gradient is; nothing: it is the worker's own.
  virtual std::optional<gradient_sum> find(const push_id& which,
                                           const payload& gradient) = 0;

  /// All of its pushes count.
  virtual void take(uint64_t number) = 0;

  /// None of its pushes counts: each worker sends its own gradient instead.
  /// What answers these pushes is not passed on to the workers.
  virtual void give_up(uint64_t number) = 0;

  /// This life of the worker is over: it has no part in any sum that is not
  /// taken yet.
  virtual void left(worker_id who, incarnation life) = 0;
};

using gradient_sums_ptr = std::shared_ptr<gradient_sums>;

} // namespace troupe
