#pragma once
// `--lr-schedule step(every=30,factor=0.1)`: how the learning rate changes.
// Here the declaration is only read; models/optim/learning_rate.hpp computes
// the rate. The words are those of torch.optim.lr_scheduler. Plain values.

#include <string_view>
#include <vector>

namespace troupe::config {

enum class lr_shape { constant, step, multi_step, cosine };

/// The defaults stand here.
struct lr_schedule {
  lr_shape shape = lr_shape::constant;
  double every = 30;      ///< step: epochs.
  std::vector<double> at; ///< multi-step: epochs, rising.
  double factor = 0.1;    ///< step, multi-step: multiplies the rate each time.
  double min = 0;         ///< cosine: the rate at the end of the run.
};

/// Reads a whole declaration; `step` and `cosine` may be bare names. Throws
/// `bad_value`, which says what is wrong.
lr_schedule parse_lr_schedule(std::string_view text);

} // namespace troupe::config
