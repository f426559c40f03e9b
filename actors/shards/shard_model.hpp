#pragma once
// The tensor half of one parameter server shard: a range of the weights'
// elements and the optimiser's state for it. Who owns the versions hands in
// buffers of the whole, or of a part that has all of the range; a shard reads
// and writes its own range of them. No actors. Not
// thread-safe; one owner.

#include "config/text/settings.hpp"
#include "messages/payload.hpp"
#include "models/layout/flat_layout.hpp"
#include "models/layout/shard_cuts.hpp"
#include "models/optim/lanes.hpp"
#include "models/optim/optimizer.hpp"
#include "models/storage/checkpoint.hpp"

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace troupe {

/// Copies a range of the tensors of a checkpoint into a flat buffer of that
/// range. Throws `run_error` when not all of these tensors are there.
void fill(const std::vector<models::parameter_slot>& slots,
          config::scalar_type dtype, const models::element_range& range,
          const models::tensor_file& file, const std::string& where,
          const std::function<std::string(const std::string&)>& key_of,
          const at::Tensor& flat);

class shard_model {
public:
  /// No weights at all (`--gradients none`).
  shard_model() = default;

  /// @param without_decay Elements of the range that have no weight decay,
  /// counted from its first.
  /// @param first Of the whole: where the buffers that are handed in begin.
  /// @param across Threads that share each pass.
  shard_model(const config::training_settings& settings,
              config::scalar_type dtype, models::element_range range,
              std::vector<models::element_range> without_decay = {},
              uint64_t first = 0, models::lanes across = {});

  /// Goes on with the optimiser's state of a checkpoint, however many shards
  /// made it. Throws `run_error` when it is not one of this network or
  /// optimiser.
  void load(const models::flat_layout& whole,
            const models::loaded_checkpoint& from);

  /// Goes on with the slots of another that owns this range.
  void load(const std::vector<models::named_slot>& slots, uint64_t steps) {
    optimizer_->load(slots, steps);
  }

  const models::element_range& range() const { return range_; }

  const std::vector<models::element_range>& without_decay() const {
    return without_decay_;
  }

  /// Is there neither NaN nor infinity in this range of the gradient?
  bool sound(const payload& gradient) const;

  /// One step of this range: the mean of the gradients, weighted by their
  /// shares (messages/types.hpp: `shard_step`) and summed in this order, and
  /// scaled, through the optimiser from `current` into `next`. Pushes in a row
  /// that have the same tensor count as one.
  void apply(const at::Tensor& next, const at::Tensor& current,
             std::span<const payload> gradients, std::span<const double> shares,
             double lr, double scale = 1);

  /// Of the optimiser; null without weights.
  const models::optimizer* optimizer() const { return optimizer_.get(); }

  /// Copies the optimiser's slots, in their order, into this range of buffers
  /// of the whole.
  void save(std::span<const at::Tensor> slots) const;

private:
  at::Tensor own(const at::Tensor& buffer) const { return own(buffer, first_); }
  at::Tensor own(const at::Tensor& buffer, uint64_t first) const;

  models::element_range range_;
  std::vector<models::element_range> without_decay_;
  uint64_t first_ = 0;
  models::lanes across_;
  std::unique_ptr<models::optimizer> optimizer_;
};

} // namespace troupe
