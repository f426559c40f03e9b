#pragma once
// The learning rate of a step, as a function of the settings and of the run's
// progress. No state is kept, so a run that is resumed or replayed has the same
// rates as one that was not. Pure; any thread.

#include "config/text/settings.hpp"
#include "config/values/lr_schedule.hpp"

#include <cstdint>
#include <optional>

namespace troupe::models {

/// The progress of a run before a step.
struct training_progress {
  double epochs = 0;  ///< Samples applied / samples in the data set.
  uint64_t steps = 0; ///< Updates of the weights.
};

/// Follows torch.optim.lr_scheduler: StepLR, MultiStepLR, CosineAnnealingLR
/// and, multiplied with these, LinearLR as warm-up. StepLR and MultiStepLR
/// change the rate at epochs counted from the start of the run. Cosine and
/// warm-up change it with every step, and equal PyTorch's rates at the ends of
/// epochs; the cosine extends from the end of the warm-up to the end of the
/// run, which is `epochs`, or else `max_steps`.
class learning_rate {
public:
  /// Fraction of the rate at which the warm-up begins.
  static constexpr double warmup_begin = 0.01;

  /// Throws `config::bad_value` for a schedule that cannot be read.
  explicit learning_rate(const config::training_settings& settings);

  double at(const training_progress& where) const;

private:
  double warmup(double epochs) const;
  double scheduled(const training_progress& where) const;
  double cosine(const training_progress& where) const;

  config::lr_schedule schedule_;
  double lr_;
  double warmup_epochs_;
  std::optional<double> epochs_;
  std::optional<uint64_t> steps_;
};

} // namespace troupe::models
