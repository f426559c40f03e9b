#include "models/optim/optimizer_with_slots.hpp"

#include "config/text/failure.hpp"
#include "models/scalar.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <utility>

namespace troupe::models {

optimizer_with_slots::optimizer_with_slots(
  const config::training_settings& settings, const flat_layout& layout,
  parameter_groups groups, std::vector<std::string> slot_names,
  c10::Device where)
  : settings_(settings), layout_(layout), groups_(std::move(groups)),
    where_(where) {
  if (!groups_.fit(layout.parameter_count()))
    throw run_error("groups of parameters do not fit the layout of " +
                    std::to_string(layout.parameter_count()) + " parameters");
  if (averages())
    slot_names.emplace_back(average_slot_name);
  auto options = at::TensorOptions{to_aten(layout.dtype())}.device(where);
  for (const auto& name : slot_names)
    slots_.push_back(
      {name,
       at::zeros({static_cast<int64_t>(layout.parameter_count())}, options)});
}

void optimizer_with_slots::merge_parts() {
  auto& parts = groups_.parts;
  size_t kept = 0;
  for (const auto& part : parts) {
    if (kept > 0 && parts[kept - 1].group == part.group)
      parts[kept - 1].end = part.end;
    else
      parts[kept++] = part;
  }
  parts.resize(kept);
}

void optimizer_with_slots::load(const std::vector<named_slot>& saved,
                                uint64_t steps) {
  if (saved.size() != slots_.size())
    throw run_error("saved state of " + std::to_string(saved.size()) +
                    " slots is not that of " + std::string{name()} +
                    ", which has " + std::to_string(slots_.size()));
  for (size_t i = 0; i < slots_.size(); ++i)
    if (saved[i].name != slots_[i].name ||
        !layout_.fits_parameters(saved[i].flat))
      throw run_error("saved slot " + saved[i].name + " is not slot " +
                      slots_[i].name + " of " + std::string{name()} + " with " +
                      std::to_string(layout_.parameter_count()) + " values");
  at::NoGradGuard no_grad;
  for (size_t i = 0; i < slots_.size(); ++i)
    slots_[i].flat.copy_(saved[i].flat);
  steps_ = steps;
}

void optimizer_with_slots::require_fit(const at::Tensor& x) const {
  if (!layout_.fits(x, where_))
    throw run_error(
      "weights or gradients do not fit the optimiser's layout of " +
      std::to_string(layout_.count()) + " parameters");
}

void optimizer_with_slots::require_inputs(
  const at::Tensor& current, std::span<const at::Tensor> gradients) const {
  require_fit(current);
  for (const auto& x : gradients)
    require_fit(x);
}

void optimizer_with_slots::require_factors(
  std::span<const double> factors) const {
  if (std::ranges::any_of(groups_.parts, [&](const auto& part) {
        return part.parameter >= factors.size();
      }))
    throw run_error("a step of " + std::string{name()} +
                    " needs a factor for each parameter");
}

} // namespace troupe::models
