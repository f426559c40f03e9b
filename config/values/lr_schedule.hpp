#pragma once
// `--lr-schedule step(every=30,factor=0.1)`: how the learning rate changes.
// Here is what a declaration says; what the rate is at a time is in
// models/learning_rate.hpp. The words are those of torch.optim.lr_scheduler.

#include <string_view>
#include <vector>

namespace troupe::config {

enum class lr_shape { constant, step, multi_step, cosine };

/// What is not given keeps the value that stands here.
struct lr_schedule {
  lr_shape shape = lr_shape::constant;
  double every = 30;      ///< step: epochs.
  std::vector<double> at; ///< multi-step: epochs, rising.
  double factor = 0.1;    ///< step, multi-step: of the rate, each time.
  double min = 0;         ///< cosine: the rate at the end of the run.
};

/// Reads a declaration, all of it; `step` and `cosine` may be bare names.
/// Throws `bad_value` that says what is wrong.
lr_schedule parse_lr_schedule(std::string_view text);

} // namespace troupe::config
