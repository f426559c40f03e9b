#pragma once
// The tensor half of one parameter server shard: a range of the weights'
// elements and the optimiser's state for it. The owner of the versions passes
// in buffers of the whole, or of a part that contains the range; the shard
// reads and writes only its own range of them.
//
// A member of the lead's model or of a remote shard's state. No actors. Not
// thread-safe; one owner.

#include "config/text/settings.hpp"
#include "messages/payload.hpp"
#include "messages/shards.hpp"
#include "models/layout/flat_layout.hpp"
#include "models/layout/shard_cuts.hpp"
#include "models/optim/exact_sum.hpp"
#include "models/optim/lanes.hpp"
#include "models/optim/optimizer.hpp"
#include "models/storage/checkpoint.hpp"

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace troupe {

/// Copies a range of a checkpoint's weights into a flat buffer of that size.
/// Throws `run_error` when some of these tensors are missing.
/// @param slots Those that the range may lie in.
void fill(const std::vector<models::parameter_slot>& slots,
          config::scalar_type dtype, const models::element_range& range,
          const models::loaded_checkpoint& from, const at::Tensor& flat);

/// The same with a slot of its optimiser.
void fill_slot(const models::flat_layout& whole, const std::string& slot,
               const models::element_range& range,
               const models::loaded_checkpoint& from, const at::Tensor& flat);

/// The numbers of a step, on all shards.
struct step_terms {
  double lr = 0;
  double scale = 1;                    ///< Of the mean of its gradients.
  std::vector<double> factors = {};    ///< Of each parameter's step, if any.
  std::optional<double> momentum = {}; ///< Not given: that of the step before.
  config::momentum_use use = {};
};

step_terms terms_of(const shard_step& order);

/// How a shard goes through its numbers.
struct range_passes {
  uint64_t first =
    0; ///< Where the buffers that it is given begin in the whole.
  models::lanes across = {}; ///< Threads that share each pass.
};

/// What is found out about a gradient, or a part of it, before it is used.
struct gradient_facts {
  bool is_sound = true; ///< It has neither NaN nor infinity.
  /// The sum of the squares of its numbers; 0 unless norms are watched.
  models::exact_sum squares{};
};

class shard_model {
public:
  /// No weights at all (`--gradients none`).
  shard_model() = default;

  /// @param groups The groups of the range's parameters; none: all have the
  /// numbers of the settings.
  shard_model(const config::training_settings& settings,
              config::scalar_type dtype, models::element_range range,
              const models::parameter_groups& groups = {},
              range_passes passes = {});

  /// Continues with the optimiser's state of a checkpoint, however many shards
  /// made it. Throws `run_error` when it belongs to another network or
  /// optimiser.
  /// @param steps That the optimiser has made.
  void load(const models::flat_layout& whole,
            const models::loaded_checkpoint& from, uint64_t steps);

  /// Continues with the slots of another shard that owned this range.
  void load(const std::vector<models::named_slot>& slots, uint64_t steps) {
    optimizer_->load(slots, steps);
  }

  const models::element_range& range() const { return range_; }

  /// Looks at this range of a gradient: in one pass, or in none where it is
  /// known to be finite and norms are not watched.
  gradient_facts look_at(const payload& gradient) const;

  /// One step of this range: takes the mean of the gradients, weighted by their
  /// shares (messages/types.hpp: `shard_step`) and summed in this order, scales
  /// it, and runs it through the optimiser from `current` into `next`.
  /// Consecutive pushes with the same tensor count as one.
  void apply(const at::Tensor& next, const at::Tensor& current,
             std::span<const payload> gradients, std::span<const double> shares,
             const step_terms& with);

  /// Whether each parameter's step has a factor of its own, for which `measure`
  /// is called on all shards before `apply`.
  bool has_factors() const { return optimizer_ && optimizer_->has_factors(); }

  /// The squares of this range of each parameter; begins the step.
  std::vector<models::parameter_squares>
  measure(const at::Tensor& current, std::span<const payload> gradients,
          std::span<const double> shares, double scale);

  /// The squares of this range of the mean of these gradients.
  models::exact_sum squares(std::span<const payload> gradients,
                            std::span<const double> shares) const;

  /// The optimiser; null without weights.
  const models::optimizer* optimizer() const { return optimizer_.get(); }

  /// Copies of the optimiser's slots, in their order, which steps do not
  /// change. On a GPU they lie there until somebody asks for the host's bytes,
  /// which hold up no step. Throws `run_error`.
  std::vector<payload> copy_slots() const;

private:
  /// This range of the gradients of a step, and their shares.
  struct mean_parts {
    std::vector<at::Tensor> gradients;
    std::vector<double> shares;
  };

  bool is_sound(const payload& gradient) const;

  /// This range of a gradient, where the optimiser is.
  at::Tensor own(const payload& gradient) const;

  mean_parts parts_of(std::span<const payload> gradients,
                      std::span<const double> shares) const;
  at::Tensor own(const at::Tensor& buffer) const {
    return own(buffer, passes_.first);
  }
  at::Tensor own(const at::Tensor& buffer, uint64_t first) const;

  models::element_range range_;
  c10::Device device_ = c10::kCPU;
  range_passes passes_;
  bool watches_norms_ = false; ///< Of each gradient.
  std::unique_ptr<models::optimizer> optimizer_;
};

} // namespace troupe
