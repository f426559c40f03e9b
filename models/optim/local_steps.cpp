#include "models/optim/local_steps.hpp"

#include "config/schema/inner_optimizer.hpp"
#include "config/text/failure.hpp"
#include "models/device/accelerator.hpp"
#include "models/optim/clipping.hpp"
#include "models/optim/groups.hpp"

#include <ATen/ops/empty_like.h>
#include <ATen/ops/sub.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <array>
#include <span>
#include <utility>

namespace troupe::models {

namespace {

/// The parameters without the statistics, as one.
flat_layout parameters_alone(const flat_layout& of) {
  auto count = static_cast<int64_t>(of.parameter_count());
  return flat_layout::from({{"parameters", {count}}}, of.dtype());
}

at::Tensor cut(const at::Tensor& flat, const element_range& range) {
  return flat.narrow(0, static_cast<int64_t>(range.first),
                     static_cast<int64_t>(range.count));
}

} // namespace

local_steps::local_steps(const config::training_settings& settings,
                         const flat_layout& layout)
  : layout_(layout), fragments_(layout, settings.fragments),
    settings_(config::inner_training(settings)), rate_(settings_),
    optimizer_(make_optimizer(settings_, parameters_alone(layout),
                              groups_of(layout, settings_))) {
  // nop
}

void local_steps::begin(const at::Tensor& weights,
                        const std::shared_ptr<const inner_numbers>& from) {
  at::NoGradGuard no_grad;
  first_ = weights_ = weights.to(device_named(settings_.device));
  if (settings_.keeps_own_weights()) // For longer than the round.
    first_ = weights_.clone();
  load(from);
}

void local_steps::merge(uint32_t fragment, const at::Tensor& numbers,
                        uint64_t made) {
  at::NoGradGuard no_grad;
  auto range = range_of(fragment);
  if (!first_.defined() ||
      static_cast<uint64_t>(numbers.numel()) != range.count)
    throw run_error("the server has sent weights of another fragment");
  if (!own_.defined())
    own_ = at::empty_like(first_);
  if (!weights_.is_same(own_))
    own_.copy_(weights_);
  cut(first_, range).copy_(numbers);
  if (settings_.buffers == config::buffers_rule::local)
    range = fragments_.parameters(fragment);
  auto given = cut(first_, range);
  auto own = cut(own_, range);
  if (made == 0)
    own.copy_(given);
  else // The paper's mixing factor of one half.
    own.add_(given).mul_(0.5);
  weights_ = own_;
}

void local_steps::go_on(const std::shared_ptr<const inner_numbers>& from) {
  load(from);
}

void local_steps::load(const std::shared_ptr<const inner_numbers>& from) {
  if (from && from == loaded_)
    return;
  loaded_ = from;
  if (from) {
    optimizer_->load(from->slots, from->steps);
    return;
  }
  auto slots = optimizer_->slots();
  for (auto& slot : slots)
    slot.flat = at::zeros_like(slot.flat, slot.flat.options().device(at::kCPU));
  optimizer_->load(slots, 0);
}

void local_steps::step(const at::Tensor& gradient,
                       const training_progress& where) {
  at::NoGradGuard no_grad;
  auto near = gradient.to(first_.device());
  if (!own_.defined())
    own_ = at::empty_like(first_);
  std::array gradients{layout_.parameters_of(near)};
  constexpr std::array shares{1.0};
  double scale = 1;
  if (settings_.clip_norm)
    scale = clip_scale(*settings_.clip_norm,
                       squares_of_mean(gradients, shares).value());
  auto current = layout_.parameters_of(weights_);
  std::vector<double> factors;
  if (optimizer_->has_factors())
    factors =
      step_factors(optimizer_->measure(current, gradients, shares, scale),
                   layout_.slots().size());
  optimizer_->step(layout_.parameters_of(own_), current, gradients, shares,
                   rate_.at(where), scale, {}, factors);
  layout_.statistics_of(own_).copy_(layout_.statistics_of(near));
  weights_ = own_;
  loaded_.reset();
}

at::Tensor local_steps::finish(const at::Tensor& to, uint32_t fragment) {
  at::NoGradGuard no_grad;
  const auto& range = fragments_.parameters(fragment);
  auto difference = cut(to, range);
  auto before = cut(first_, range);
  auto after = cut(weights_, range);
  if (to.device() == first_.device())
    at::sub_out(difference, before, after);
  else
    difference.copy_(at::sub(before, after));
  if (fragments_.has_statistics(fragment))
    layout_.statistics_of(to).copy_(layout_.statistics_of(weights_));
  if (!settings_.keeps_own_weights())
    first_.reset();
  return cut(to, range_of(fragment));
}

std::shared_ptr<const inner_numbers>
local_steps::copy_state(std::shared_ptr<inner_numbers> into) const {
  at::NoGradGuard no_grad;
  auto out = into ? std::move(into) : std::make_shared<inner_numbers>();
  auto slots = optimizer_->slots();
  if (out->slots.size() != slots.size()) {
    out->slots = slots;
    for (auto& slot : out->slots)
      slot.flat =
        at::empty_like(slot.flat, slot.flat.options().device(at::kCPU));
  }
  for (size_t i = 0; i < slots.size(); ++i)
    out->slots[i].flat.copy_(slots[i].flat);
  out->steps = optimizer_->steps();
  return out;
}

} // namespace troupe::models
