#include "models/engine/loss_scale.hpp"

#include "config/text/failure.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/_amp_foreach_non_finite_check_and_unscale.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>

namespace troupe::models {

void loss_scale::succeed() noexcept {
  if (++good_ < patience)
    return;
  value_ *= 2;
  good_ = 0;
}

void loss_scale::overflow() {
  if (value_ <= least)
    throw run_error("--autocast fp16: gradients are infinite or NaN, even with "
                    "a loss scale of 1: lower the learning rate, or use "
                    "--autocast bf16");
  value_ /= 2;
  good_ = 0;
}

at::Tensor unscale(const std::vector<at::Tensor>& gradients, double scale) {
  at::NoGradGuard no_grad;
  auto options = gradients.front().options();
  auto found = at::zeros({}, options);
  at::_amp_foreach_non_finite_check_and_unscale_(
    gradients, found, at::full({}, 1 / scale, options));
  return found;
}

void require_gpu_for_fp16(const config::training_settings& settings) {
  if (settings.autocast == config::autocast_kind::fp16 &&
      settings.device == "cpu")
    throw run_error("--autocast fp16 needs a GPU: give this node --device "
                    "cuda, or train with bf16");
}

} // namespace troupe::models
