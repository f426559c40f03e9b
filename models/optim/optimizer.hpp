#pragma once
// Server-side optimisers: one step, including the mean of its gradients, is one
// pass over flat buffers. They follow PyTorch's torch.optim exactly, so that
// results can be compared; the bits are the same on every CPU. On a GPU
// (device_optimizer.hpp) results are the same to rounding.

#include "config/text/settings.hpp"
#include "config/values/staleness_rule.hpp"
#include "models/layout/flat_layout.hpp"
#include "models/optim/exact_sum.hpp"
#include "models/optim/groups.hpp"
#include "models/optim/lanes.hpp"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::models {

/// A part of an optimiser's state: a flat buffer with the parameters' layout.
struct named_slot {
  std::string
    name; ///< As in PyTorch: momentum_buffer, exp_avg, exp_avg_sq, sum; ema.
  at::Tensor flat;
};

/// The slot of `--ema-decay`: an average of the weights.
inline constexpr std::string_view average_slot_name = "ema";

/// The squares of the elements of a parameter, or of a part of it.
struct parameter_squares {
  uint32_t parameter = 0; ///< Its number in flat_layout::slots of the whole.
  exact_sum weights;
  exact_sum step; ///< Before learning rate and factor.
};

/// The factor for the step of each parameter, by its number: the norm of its
/// weights over that of its step, and 1 where either is 0. (You et al., cited
/// in kernels.hpp, with the identity as their function phi.)
/// @param all Parts of parameters in any order.
/// @param count The number of parameters.
std::vector<double> step_factors(std::span<const parameter_squares> all,
                                 size_t count);

/// Updates weights from gradients. Owned by a parameter server or shard, whose
/// actor calls it; not thread-safe.
class optimizer {
public:
  virtual ~optimizer();

  /// sgd | adam | adamw | lamb | adagrad, or one of your own.
  virtual std::string_view name() const noexcept = 0;

  /// Makes one step from `current` to `next` with the mean of the gradients,
  /// each weighted by its share and summed in the given order. All are flat,
  /// contiguous and of the layout's dtype and size; only the parameters of
  /// `next` are written, and `next` may be `current`. The gradients are read
  /// once, so the caller must have checked that they are finite.
  /// @param lr Learning rate of this step.
  /// @param scale Factor for the mean (clipping.hpp).
  /// @param across Threads that make the step; they do not change the bits.
  /// @param factors For an optimiser that `has_factors`: one for each
  /// parameter, by its number. `step_factors` makes them from the results of
  /// `measure` on all shards, called right before with the same arguments.
  /// @throws run_error if something does not fit, or there are no samples; then
  /// nothing has changed.
  virtual void step(const at::Tensor& next, const at::Tensor& current,
                    std::span<const at::Tensor> gradients,
                    std::span<const double> shares, double lr, double scale = 1,
                    const lanes& across = {},
                    std::span<const double> factors = {}) = 0;

  /// From the next step on all parameters have this momentum, if the optimiser
  /// has one at all. It must have been above 0 from the start to have an
  /// effect.
  virtual void set_momentum(double momentum) { (void)momentum; }

  /// The same about how it is used; only `sgd` knows anything else than usual.
  virtual void use_momentum(const config::momentum_use& how) { (void)how; }

  /// Whether each parameter's step has a factor of its own.
  virtual bool has_factors() const noexcept { return false; }

  /// The first half of such a step: takes the gradients into the state, and
  /// returns the squares of each parameter, as far as it lies in this range.
  virtual std::vector<parameter_squares>
  measure(const at::Tensor& current, std::span<const at::Tensor> gradients,
          std::span<const double> shares, double scale = 1,
          const lanes& across = {}) {
    (void)current, (void)gradients, (void)shares, (void)scale, (void)across;
    return {};
  }

  /// The current state. The tensors share memory with the optimiser and change
  /// with the next step; clone what must outlive it. Empty for an optimiser
  /// without state.
  virtual std::vector<named_slot> slots() const = 0;

  /// Steps taken so far.
  virtual uint64_t steps() const noexcept = 0;

  /// Restores saved state; the values are copied.
  /// @throws run_error if names, sizes or dtypes are not those of slots().
  virtual void load(const std::vector<named_slot>& saved, uint64_t steps) = 0;
};

/// Makes the optimiser that the settings name.
/// @param groups Those of the layout's parameters.
/// @throws usage_error if the name is unknown; the line lists those that are.
std::unique_ptr<optimizer>
make_optimizer(const config::training_settings& settings,
               const flat_layout& layout, parameter_groups groups);

/// The same with the groups that the settings make of the layout.
std::unique_ptr<optimizer>
make_optimizer(const config::training_settings& settings,
               const flat_layout& layout);

/// The names that make_optimizer accepts.
std::vector<std::string> optimizer_names();

} // namespace troupe::models
