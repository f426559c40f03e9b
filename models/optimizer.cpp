#include "models/optimizer.hpp"

#include "config/failure.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/_fused_adam.h>
#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/_fused_sgd.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>

#include <array>
#include <utility>

namespace troupe::models {

namespace {

constexpr bool maximize = false;
constexpr bool amsgrad = false;
constexpr double dampening = 0;

/// What the optimisers share: settings, named slots and the count of steps.
class slotted_optimizer : public optimizer {
public:
  slotted_optimizer(const config::training_settings& settings,
                    const flat_layout& layout,
                    const std::vector<std::string>& slot_names)
    : settings_(settings), layout_(layout) {
    for (const auto& name : slot_names) {
      slots_.push_back({name, at::zeros({static_cast<int64_t>(layout.count())},
                                        to_aten(layout.dtype()))});
    }
  }

  void step(at::Tensor& weights, const at::Tensor& gradient, double lr) final {
    if (!layout_.fits(weights) || !layout_.fits(gradient)) {
      throw run_error(
        "weights or gradient do not fit the optimiser's layout of " +
        std::to_string(layout_.count()) + " parameters");
    }
    at::NoGradGuard no_grad;
    fused_step(weights, gradient, lr);
    ++steps_;
  }

  std::vector<named_slot> slots() const final { return slots_; }

  uint64_t steps() const noexcept final { return steps_; }

  void load(const std::vector<named_slot>& saved, uint64_t steps) final {
    if (saved.size() != slots_.size()) {
      throw run_error("saved state of " + std::to_string(saved.size()) +
                      " slots is not that of " + std::string{name()} +
                      ", which has " + std::to_string(slots_.size()));
    }
    for (size_t i = 0; i < slots_.size(); ++i) {
      if (saved[i].name != slots_[i].name || !layout_.fits(saved[i].flat)) {
        throw run_error("saved slot " + saved[i].name + " is not slot " +
                        slots_[i].name + " of " + std::string{name()} +
                        " with " + std::to_string(layout_.count()) + " values");
      }
    }
    for (size_t i = 0; i < slots_.size(); ++i) {
      slots_[i].flat.copy_(saved[i].flat);
    }
    steps_ = steps;
  }

protected:
  virtual void fused_step(at::Tensor& weights, const at::Tensor& gradient,
                          double lr) = 0;

  const config::training_settings& settings() const noexcept {
    return settings_;
  }

  const at::Tensor& slot(size_t i) const { return slots_[i].flat; }

private:
  config::training_settings settings_;
  flat_layout layout_;
  std::vector<named_slot> slots_;
  uint64_t steps_ = 0;
};

class sgd final : public slotted_optimizer {
public:
  sgd(const config::training_settings& settings, const flat_layout& layout)
    : slotted_optimizer(settings, layout,
                        settings.momentum != 0
                          ? std::vector<std::string>{"momentum_buffer"}
                          : std::vector<std::string>{}) {
    // nop
  }

  std::string_view name() const noexcept override { return "sgd"; }

private:
  void fused_step(at::Tensor& weights, const at::Tensor& gradient,
                  double lr) override {
    std::vector<at::Tensor> momentum;
    if (settings().momentum != 0) {
      momentum.push_back(slot(0));
    }
    at::_fused_sgd_({weights}, {gradient}, momentum, settings().weight_decay,
                    settings().momentum, lr, dampening, settings().nesterov,
                    maximize, /*is_first_step=*/steps() == 0);
  }
};

/// Adam and AdamW differ in what weight decay means.
class adam final : public slotted_optimizer {
public:
  adam(const config::training_settings& settings, const flat_layout& layout,
       bool decoupled)
    : slotted_optimizer(settings, layout, {"exp_avg", "exp_avg_sq"}),
      decoupled_(decoupled) {
    // nop
  }

  std::string_view name() const noexcept override {
    return decoupled_ ? "adamw" : "adam";
  }

private:
  void fused_step(at::Tensor& weights, const at::Tensor& gradient,
                  double lr) override {
    using many = at::TensorList;
    using maybe = const std::optional<at::Tensor>&;
    using kernel = void (*)(many, many, many, many, many, many, double, double,
                            double, double, double, bool, bool, maybe, maybe);
    kernel fused = at::_fused_adam_;
    if (decoupled_) {
      fused = at::_fused_adamw_;
    }
    auto count = at::full({}, static_cast<double>(steps() + 1), at::kFloat);
    fused({weights}, {gradient}, {slot(0)}, {slot(1)}, {}, {count}, lr,
          settings().beta1, settings().beta2, settings().weight_decay,
          settings().epsilon, amsgrad, maximize, std::nullopt, std::nullopt);
  }

  bool decoupled_;
};

template <bool Decoupled>
std::unique_ptr<optimizer> make_adam(const config::training_settings& settings,
                                     const flat_layout& layout) {
  return std::make_unique<adam>(settings, layout, Decoupled);
}

std::unique_ptr<optimizer> make_sgd(const config::training_settings& settings,
                                    const flat_layout& layout) {
  if (settings.nesterov && settings.momentum == 0) {
    throw usage_error("nesterov needs a momentum above 0");
  }
  return std::make_unique<sgd>(settings, layout);
}

struct entry {
  std::string_view name;
  std::unique_ptr<optimizer> (*make)(const config::training_settings&,
                                     const flat_layout&);
};

constexpr std::array registry{entry{"sgd", make_sgd},
                              entry{"adam", make_adam<false>},
                              entry{"adamw", make_adam<true>}};

} // namespace

optimizer::~optimizer() {
  // nop
}

std::unique_ptr<optimizer>
make_optimizer(const config::training_settings& settings,
               const flat_layout& layout) {
  std::string known;
  for (const auto& x : registry) {
    if (x.name == settings.optimizer) {
      return x.make(settings, layout);
    }
    known += (known.empty() ? "" : ", ") + std::string{x.name};
  }
  throw usage_error("unknown optimizer '" + settings.optimizer +
                    "'; there are: " + known);
}

std::vector<std::string> optimizer_names() {
  std::vector<std::string> result;
  for (const auto& x : registry) {
    result.emplace_back(x.name);
  }
  return result;
}

} // namespace troupe::models
