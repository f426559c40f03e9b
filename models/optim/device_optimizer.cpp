#include "models/optim/device_optimizer.hpp"

#include "config/text/failure.hpp"
#include "models/device/accelerator.hpp"
#include "models/optim/device_mean.hpp"
#include "models/optim/optimizer_with_slots.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/_foreach_add.h>
#include <ATen/ops/_foreach_addcmul.h>
#include <ATen/ops/_foreach_div.h>
#include <ATen/ops/_foreach_lerp.h>
#include <ATen/ops/_foreach_mul.h>
#include <ATen/ops/_foreach_norm.h>
#include <ATen/ops/_foreach_sqrt.h>
#include <ATen/ops/_fused_adagrad.h>
#include <ATen/ops/_fused_adam.h>
#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/_fused_sgd.h>
#include <ATen/ops/full.h>
#include <ATen/ops/stack.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

namespace troupe::models {

namespace {

using tensors = std::vector<at::Tensor>;

/// The parts of a step that belong to one group: the k-th tensors of all lists
/// lie at the same place.
struct group_views {
  group_terms terms;
  std::vector<uint32_t> parameters{}; ///< Whose part it is.
  tensors weights{};                  ///< The next ones; first the current.
  tensors gradients{};                ///< Empty in the second half of a step.
  std::vector<tensors> slots{};       ///< By slot.
};

/// A step, in one pass or in two halves, over views of flat tensors.
class device_optimizer : public optimizer_with_slots {
public:
  device_optimizer(const config::training_settings& settings,
                   const flat_layout& layout, parameter_groups groups,
                   std::vector<std::string> slot_names)
    : optimizer_with_slots(settings, layout, std::move(groups),
                           std::move(slot_names),
                           device_named(settings.device)) {
    // nop
  }

  void step(const at::Tensor& next, const at::Tensor& current,
            std::span<const at::Tensor> gradients,
            std::span<const double> shares, double lr, double scale,
            const lanes&, std::span<const double> factors) final {
    require_fit(next);
    require_inputs(current, gradients);
    if (has_factors())
      require_factors(factors);
    at::NoGradGuard no_grad;
    at::Tensor mean;
    if (!has_factors()) // Else the first half has taken it in.
      mean = mean_on_device(gradients, shares, scale);
    if (next.const_data_ptr() != current.const_data_ptr())
      next.copy_(current);
    for (auto& group : views_of(next, mean))
      if (!group.weights.empty())
        update(group, lr * group.terms.lr_factor, factors);
    if (averages())
      average(next);
    count_step();
  }

protected:
  /// Makes the step of one group.
  /// @param lr The group's.
  virtual void update(group_views& group, double lr,
                      std::span<const double> factors) = 0;

  /// By group; those of one that has no element here are empty.
  /// @param gradient May be undefined.
  std::vector<group_views> views_of(const at::Tensor& weights,
                                    const at::Tensor& gradient) const {
    std::vector<group_views> out;
    for (const auto& terms : groups().terms)
      out.push_back({terms, {}, {}, {}, std::vector<tensors>(own_slots())});
    uint64_t first = 0;
    for (const auto& part : groups().parts) {
      auto view = [&](const at::Tensor& flat) {
        return flat.narrow(0, static_cast<int64_t>(first),
                           static_cast<int64_t>(part.end - first));
      };
      auto& its = out[part.group];
      its.parameters.push_back(part.parameter);
      its.weights.push_back(view(weights));
      if (gradient.defined())
        its.gradients.push_back(view(gradient));
      for (size_t i = 0; i < own_slots(); ++i)
        its.slots[i].push_back(view(own_slot(i)));
      first = part.end;
    }
    return out;
  }

  /// The number of this step, from 1, for each tensor of a group, as LibTorch's
  /// kernels take it.
  tensors step_numbers(const group_views& group) const {
    auto number = at::full({}, static_cast<double>(steps() + 1),
                           group.weights.front().options().dtype(at::kFloat));
    return tensors(group.weights.size(), number);
  }

private:
  /// As slotted_optimizer has it.
  void average(const at::Tensor& next) const {
    if (steps() == 0)
      average_slot().copy_(next);
    else
      average_slot().lerp_(next, 1 - settings().ema_decay);
  }
};

class device_sgd final : public device_optimizer {
public:
  device_sgd(const config::training_settings& settings,
             const flat_layout& layout, parameter_groups groups)
    : device_optimizer(settings, layout, std::move(groups),
                       settings.momentum != 0
                         ? std::vector<std::string>{"momentum_buffer"}
                         : std::vector<std::string>{}) {
    merge_parts();
  }

  std::string_view name() const noexcept override { return "sgd"; }

private:
  void update(group_views& group, double lr, std::span<const double>) override {
    if (!group.slots.empty() && !(use().decays && use().moves))
      return update_in_parts(group, lr);
    at::_fused_sgd_(group.weights, group.gradients,
                    group.slots.empty() ? tensors{} : group.slots.front(),
                    group.terms.weight_decay, group.terms.momentum, lr,
                    /*dampening=*/0, settings().nesterov, /*maximize=*/false,
                    /*is_first_step=*/steps() == 0);
  }

  /// As kernels::sgd_terms has it, which LibTorch's kernel does not know.
  void update_in_parts(group_views& group, double lr) {
    auto momentum = group.terms.momentum;
    for (size_t i = 0; i < group.weights.size(); ++i) {
      auto& weights = group.weights[i];
      auto gradient = group.gradients[i];
      auto& buffer = group.slots.front()[i];
      if (group.terms.weight_decay != 0)
        gradient = gradient.add(weights, group.terms.weight_decay);
      if (steps() == 0)
        buffer.copy_(gradient);
      else
        buffer.mul_(use().decays ? momentum : 1).add_(gradient);
      auto step = settings().nesterov
                    ? gradient.add(buffer, use().moves ? momentum : 0)
                    : buffer;
      weights.sub_(step, lr);
    }
  }
};

/// Adam and AdamW differ in what weight decay means.
class device_adam final : public device_optimizer {
public:
  device_adam(const config::training_settings& settings,
              const flat_layout& layout, parameter_groups groups,
              bool decoupled)
    : device_optimizer(settings, layout, std::move(groups),
                       {"exp_avg", "exp_avg_sq"}),
      decoupled_(decoupled) {
    merge_parts();
  }

  std::string_view name() const noexcept override {
    return decoupled_ ? "adamw" : "adam";
  }

private:
  void update(group_views& group, double lr, std::span<const double>) override {
    const auto& s = settings();
    auto make_with = [&](auto&& fused) {
      fused(group.weights, group.gradients, group.slots[0], group.slots[1],
            tensors{}, step_numbers(group), lr, s.beta1, s.beta2,
            group.terms.weight_decay, s.epsilon, /*amsgrad=*/false,
            /*maximize=*/false);
    };
    if (decoupled_)
      make_with([](auto&&... x) { at::_fused_adamw_(x...); });
    else
      make_with([](auto&&... x) { at::_fused_adam_(x...); });
  }

  bool decoupled_;
};

/// Its step has two halves; the second makes the step anew from the slots.
class device_lamb final : public device_optimizer {
public:
  device_lamb(const config::training_settings& settings,
              const flat_layout& layout, parameter_groups groups)
    : device_optimizer(settings, layout, std::move(groups),
                       {"exp_avg", "exp_avg_sq"}) {
    // nop
  }

  std::string_view name() const noexcept override { return "lamb"; }

  bool has_factors() const noexcept override { return true; }

  std::vector<parameter_squares> measure(const at::Tensor& current,
                                         std::span<const at::Tensor> gradients,
                                         std::span<const double> shares,
                                         double scale, const lanes&) override {
    require_inputs(current, gradients);
    auto mean = mean_on_device(gradients, shares, scale);
    at::NoGradGuard no_grad;
    tensors norms;
    std::vector<uint32_t> parameters;
    for (auto& group : views_of(current, mean)) {
      if (group.weights.empty())
        continue;
      take_in(group);
      std::ranges::copy(group.parameters, std::back_inserter(parameters));
      auto of_weights = at::_foreach_norm(group.weights, 2, at::kDouble);
      auto of_step = at::_foreach_norm(step_of(group), 2, at::kDouble);
      for (size_t i = 0; i < of_step.size(); ++i) {
        norms.push_back(of_weights[i]);
        norms.push_back(of_step[i]);
      }
    }
    return squares_from(parameters, norms);
  }

private:
  /// Takes the gradients into the averages.
  void take_in(group_views& group) const {
    const auto& s = settings();
    at::_foreach_lerp_(group.slots[0], group.gradients, 1 - s.beta1);
    at::_foreach_mul_(group.slots[1], s.beta2);
    at::_foreach_addcmul_(group.slots[1], group.gradients, group.gradients,
                          1 - s.beta2);
  }

  /// The step with a rate of 1.
  tensors step_of(const group_views& group) const {
    const auto& s = settings();
    auto t = static_cast<double>(steps() + 1);
    auto below = at::_foreach_sqrt(group.slots[1]);
    at::_foreach_mul_(below, 1 / std::sqrt(1 - std::pow(s.beta2, t)));
    at::_foreach_add_(below, s.epsilon);
    auto out = at::_foreach_mul(group.slots[0], 1 / (1 - std::pow(s.beta1, t)));
    at::_foreach_div_(out, below);
    at::_foreach_add_(out, group.weights, group.terms.weight_decay);
    return out;
  }

  /// @param norms Of the weights and of the step of each, on the device.
  static std::vector<parameter_squares>
  squares_from(const std::vector<uint32_t>& parameters, const tensors& norms) {
    auto found = at::stack(norms).cpu();
    const auto* norm = found.const_data_ptr<double>();
    std::vector<parameter_squares> out;
    for (auto parameter : parameters) {
      auto& its = out.emplace_back();
      its.parameter = parameter;
      its.weights.add(norm[0] * norm[0]);
      its.step.add(norm[1] * norm[1]);
      norm += 2;
    }
    return out;
  }

  void update(group_views& group, double lr,
              std::span<const double> factors) override {
    std::vector<at::Scalar> rates;
    for (auto parameter : group.parameters)
      rates.emplace_back(-lr * factors[parameter]);
    auto step = step_of(group);
    at::_foreach_mul_(step, rates);
    at::_foreach_add_(group.weights, step);
  }
};

class device_adagrad final : public device_optimizer {
public:
  device_adagrad(const config::training_settings& settings,
                 const flat_layout& layout, parameter_groups groups)
    : device_optimizer(settings, layout, std::move(groups), {"sum"}) {
    merge_parts();
  }

  std::string_view name() const noexcept override { return "adagrad"; }

private:
  void update(group_views& group, double lr, std::span<const double>) override {
    at::_fused_adagrad_(group.weights, group.gradients, group.slots[0],
                        step_numbers(group), lr, /*lr_decay=*/0,
                        group.terms.weight_decay, settings().epsilon,
                        /*maximize=*/false);
  }
};

} // namespace

std::unique_ptr<optimizer>
make_device_optimizer(const config::training_settings& settings,
                      const flat_layout& layout, parameter_groups groups) {
  const auto& name = settings.optimizer;
  if (name == "sgd")
    return std::make_unique<device_sgd>(settings, layout, std::move(groups));
  if (name == "adam" || name == "adamw")
    return std::make_unique<device_adam>(settings, layout, std::move(groups),
                                         name == "adamw");
  if (name == "lamb")
    return std::make_unique<device_lamb>(settings, layout, std::move(groups));
  if (name == "adagrad")
    return std::make_unique<device_adagrad>(settings, layout,
                                            std::move(groups));
  throw usage_error("optimizer '" + name +
                    "' has no step on a GPU; give the parameter server "
                    "--device cpu");
}

} // namespace troupe::models
