#pragma once
// The lead's optimiser, which may consist of several: where workers exchange
// fragments of the weights (models/layout/fragments.hpp), each fragment has one
// of its own, since a step may have gradients of some fragments only. The state
// of the others, and their weights, then stay as they are.
//
// A member of the lead's model. No actors. Not thread-safe; one owner.

#include "actors/shards/shard_model.hpp"
#include "messages/payload.hpp"
#include "models/layout/fragments.hpp"
#include "models/layout/shard_cuts.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace troupe {

/// The gradients whose mean a step takes. That of each fragment is the mean of
/// the gradients that are of it.
struct mean_of {
  std::span<const payload> gradients;
  std::span<const double> shares;
  std::span<const uint32_t> fragments = {}; ///< Empty: there is only one.
};

class fragment_models {
public:
  /// No weights at all (`--gradients none`).
  fragment_models() = default;

  /// One for all of the range. @param passes As for shard_model.
  fragment_models(const config::training_settings& settings,
                  const models::flat_layout& layout,
                  const models::element_range& range, range_passes passes);

  /// One for each fragment of the settings, of the whole network.
  /// Throws `usage_error` if these are too many.
  fragment_models(const config::training_settings& settings,
                  const models::flat_layout& layout,
                  const models::lanes& across);

  /// Continues with the state of a checkpoint, as shard_model.
  void load(const models::flat_layout& whole,
            const models::loaded_checkpoint& from);

  bool has_weights() const { return !all_.empty(); }

  /// The fragments; nothing if there is only one.
  const std::optional<models::fragments>& cuts() const { return cuts_; }

  /// What a gradient of the fragment has of the parameters, looked at.
  gradient_facts look_at(const payload& gradient, uint32_t fragment) const;

  /// The squares of a step's mean gradient.
  models::exact_sum squares(const mean_of& mean) const;

  bool has_factors() const {
    return has_weights() && all_.front().has_factors();
  }

  /// The squares of each parameter in the step; begins the step.
  std::vector<models::parameter_squares>
  measure(const at::Tensor& current, const mean_of& mean, double scale);

  /// A step from `current` into `next`.
  void apply(const at::Tensor& next, const at::Tensor& current,
             const mean_of& mean, const step_terms& with);

  std::string_view name() const { return first().name(); }

  /// Steps of the fragment that has had the most.
  uint64_t steps() const;

  /// Steps of each fragment; empty if there is only one.
  std::vector<uint64_t> steps_of_fragments() const;

  /// The names of the optimiser's slots.
  std::vector<std::string> slot_names() const;

  /// The optimiser's slots. Of a model with fragments they are copies.
  std::vector<models::named_slot> slots() const;

  /// The average of the parameters, if there is one.
  std::optional<at::Tensor> average() const;

  /// As shard_model::copy_slots.
  std::vector<payload> copy_slots() const;

private:
  /// The gradients of one fragment, in their order.
  struct its_mean {
    std::vector<payload> gradients;
    std::vector<double> shares;
  };

  const models::optimizer& first() const { return *all_.front().optimizer(); }

  at::Tensor slot(size_t which) const;
  its_mean part_of(const mean_of& mean, uint32_t fragment) const;
  at::Tensor own(const at::Tensor& whole, uint32_t fragment) const;
  template <class Use>
  void for_each(const mean_of& mean, Use use) const;

  std::optional<models::fragments> cuts_;
  std::vector<shard_model> all_;
};

} // namespace troupe
