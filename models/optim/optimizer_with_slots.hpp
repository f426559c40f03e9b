#pragma once
// What all optimisers of Troupe share, wherever they compute: settings, groups
// of parameters, named slots of zeros, and the count of steps.

#include "models/optim/optimizer.hpp"

#include <c10/core/Device.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace troupe::models {

/// Not thread-safe, as its owner.
class optimizer_with_slots : public optimizer {
public:
  /// @param where Where the slots lie, and all that a step is given.
  /// @throws run_error if the groups do not fit the layout.
  optimizer_with_slots(const config::training_settings& settings,
                       const flat_layout& layout, parameter_groups groups,
                       std::vector<std::string> slot_names,
                       c10::Device where = c10::kCPU);

  std::vector<named_slot> slots() const final { return slots_; }

  uint64_t steps() const noexcept final { return steps_; }

  void load(const std::vector<named_slot>& saved, uint64_t steps) final;

  void set_momentum(double momentum) final {
    for (auto& one : groups_.terms)
      one.momentum = momentum;
  }

  void use_momentum(const config::momentum_use& how) final { use_ = how; }

protected:
  const config::momentum_use& use() const noexcept { return use_; }

  const config::training_settings& settings() const noexcept {
    return settings_;
  }

  const flat_layout& layout() const noexcept { return layout_; }

  const parameter_groups& groups() const noexcept { return groups_; }

  /// Parts of one group that follow each other become one, for a step that does
  /// not tell parameters apart.
  void merge_parts();

  /// Whether there is an average of the weights.
  bool averages() const noexcept { return settings_.ema_decay > 0; }

  /// How many slots there are without the average.
  size_t own_slots() const noexcept { return slots_.size() - averages(); }

  /// One of them, by its place among the names. @pre i < own_slots()
  const at::Tensor& own_slot(size_t i) const { return slots_[i].flat; }

  /// @pre averages()
  const at::Tensor& average_slot() const { return slots_.back().flat; }

  /// @throws run_error if a tensor has another size, type or place.
  void require_fit(const at::Tensor& x) const;
  void require_inputs(const at::Tensor& current,
                      std::span<const at::Tensor> gradients) const;

  /// @throws run_error if the factor of a parameter is missing.
  void require_factors(std::span<const double> factors) const;

  void count_step() { ++steps_; }

private:
  config::training_settings settings_;
  flat_layout layout_;
  parameter_groups groups_;
  std::vector<named_slot> slots_;
  uint64_t steps_ = 0;
  config::momentum_use use_;
  c10::Device where_;
};

} // namespace troupe::models
