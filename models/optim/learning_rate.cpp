#include "models/optim/learning_rate.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace troupe::models {

namespace {

/// Epochs are quotients and have rounding errors: 0.3 must reach 3 times 0.1.
constexpr double rounding = 1e-9;

/// The epoch with which the run ends; nothing if it ends by steps.
std::optional<double> end_of(const config::training_settings& settings) {
  if (settings.epochs)
    return static_cast<double>(*settings.epochs);
  if (settings.max_steps || settings.schedule_steps)
    return std::nullopt;
  return static_cast<double>(config::default_epochs);
}

} // namespace

learning_rate::learning_rate(const config::training_settings& settings)
  : schedule_(config::parse_lr_schedule(settings.lr_schedule)),
    lr_(settings.lr), warmup_epochs_(settings.warmup_epochs),
    epochs_(end_of(settings)),
    steps_(settings.schedule_steps ? settings.schedule_steps
                                   : settings.max_steps) {
  // nop
}

double learning_rate::at(const training_progress& where) const {
  auto out = scheduled(where);
  return where.epochs < warmup_epochs_ ? out * warmup(where.epochs) : out;
}

double learning_rate::warmup(double epochs) const {
  return warmup_begin + (1 - warmup_begin) * epochs / warmup_epochs_;
}

double learning_rate::scheduled(const training_progress& where) const {
  auto epochs = where.epochs + rounding;
  double passed = 0;
  switch (schedule_.shape) {
  case config::lr_shape::constant:
    return lr_;
  case config::lr_shape::cosine:
    return cosine(where);
  case config::lr_shape::step:
    passed = std::floor(epochs / schedule_.every + rounding);
    break;
  case config::lr_shape::multi_step:
    passed = static_cast<double>(
      std::ranges::upper_bound(schedule_.at, epochs) - schedule_.at.begin());
    break;
  }
  return lr_ * std::pow(schedule_.factor, passed);
}

// With a limit in steps, the end in epochs is extrapolated from the progress.
double learning_rate::cosine(const training_progress& where) const {
  auto done = where.epochs - warmup_epochs_;
  auto all = 0.0;
  if (epochs_)
    all = *epochs_ - warmup_epochs_;
  else if (warmup_epochs_ == 0) {
    done = static_cast<double>(where.steps);
    all = static_cast<double>(*steps_);
  } else if (where.steps > 0)
    all = where.epochs * static_cast<double>(*steps_) /
            static_cast<double>(where.steps) -
          warmup_epochs_;
  auto share = all > 0 ? std::clamp(done / all, 0.0, 1.0) : 0.0;
  return schedule_.min +
         (lr_ - schedule_.min) * (1 + std::cos(std::numbers::pi * share)) / 2;
}

} // namespace troupe::models
