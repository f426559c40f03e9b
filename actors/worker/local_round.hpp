#pragma once
// What a compute actor does for local steps besides computing gradients: gives
// each the weights that the step before has made, makes the step, and in the
// end the difference of the round (models/optim/local_steps.hpp).
//
// A member of the compute actor's state; not thread-safe.

#include "actors/worker/computing_parts.hpp"
#include "messages/types.hpp"
#include "models/optim/learning_rate.hpp"
#include "models/optim/local_steps.hpp"

#include <ATen/core/Tensor.h>

#include <memory>

namespace troupe {

/// How far the schedule of the inner optimiser has come when this lease is
/// computed: its epochs are those of the samples, so that a replay has the same
/// rates, whoever computes.
/// @param number Of the step in its round, which began at this version.
models::training_progress inner_progress(const computing_parts& parts,
                                         const lease& from, version began_at,
                                         uint64_t number);

class local_round {
public:
  /// @param state Where the state of the optimiser is kept between rounds.
  /// @throws usage_error if there is no such optimiser.
  local_round(const computing_parts& parts, const models::flat_layout& layout,
              inner_state_ptr state);

  /// Before the gradient of this task is computed: gives the task the weights
  /// and statistics of the worker's own, except where a round begins anew with
  /// the task's, which may still be arriving. Weights that are to be merged it
  /// waits for. Throws `run_error` if those are of another fragment.
  /// @pre task.local
  void enter(compute_task& task);

  /// Takes the gradient of the task for a step, if it has a batch, and puts the
  /// difference of the round in the gradient's place where the round ends.
  /// @param report Of the gradient; gets what is to be pushed.
  void leave(const compute_task& task, const at::Tensor& gradient,
             gradient_report& report);

private:
  std::shared_ptr<const models::inner_numbers> go_back_to(const push_id& after);
  void merge(const compute_task& task);

  computing_parts parts_;
  inner_state_ptr state_;
  models::local_steps steps_;
  payload first_;       ///< The weights that this round was given.
  uint64_t before_ = 0; ///< Steps of the optimiser before the round.
};

} // namespace troupe
