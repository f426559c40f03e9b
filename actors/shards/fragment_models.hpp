#pragma once
// The optimiser of a server, which may consist of several: where workers
// exchange fragments of the weights (models/layout/fragments.hpp), each
// fragment has one of its own, since a step may have gradients of some
// fragments only. The state of the others, and their weights, then stay as they
// are. Of several servers each has its part of a fragment, which may be
// nothing; gradients of it are then empty payloads.
//
// A member of the lead's model or of a remote shard's state. No actors. Not
// thread-safe; one owner.

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

/// What a server has of the weights.
struct server_range {
  /// Of the whole. All buffers begin where they do.
  models::element_range elements;
  models::parameter_groups groups; ///< Of these elements, as for shard_model.
  /// Their fragments; nothing: there is only one.
  std::optional<models::fragments> cuts = {};
};

class fragment_models {
public:
  /// No weights at all (`--gradients none`).
  fragment_models() = default;

  fragment_models(const config::training_settings& settings,
                  config::scalar_type dtype, server_range range,
                  const models::lanes& across);

  /// Continues with the state of a checkpoint, as shard_model.
  void load(const models::flat_layout& whole,
            const models::loaded_checkpoint& from);

  /// Continues with the slots of another server that had this range.
  /// @param of_fragments The steps of each; if these are other fragments, each
  /// has made `steps`.
  void load(const std::vector<models::named_slot>& slots, uint64_t steps,
            std::span<const uint64_t> of_fragments);

  bool has_weights() const { return first_ != nullptr; }

  /// The fragments of the range; nothing if there is only one.
  const std::optional<models::fragments>& cuts() const { return cuts_; }

  /// The elements of a gradient of this fragment. @param all Of the range.
  uint64_t count_of(uint32_t fragment, uint64_t all) const {
    return cuts_ ? cuts_->all(fragment).count : all;
  }

  /// What a worker gets of these weights, which are those of the range: all,
  /// or, where it goes on with its own, the fragment that it has pushed.
  /// @param pushes The fragment whose turn is next.
  payload released(const payload& weights, uint32_t pushes, bool goes_on) const;

  /// What a gradient of the fragment has of the parameters, looked at.
  gradient_facts look_at(const payload& gradient, uint32_t fragment) const;

  /// The squares of a step's mean gradient.
  models::exact_sum squares(const mean_of& mean) const;

  bool has_factors() const { return has_weights() && first_->has_factors(); }

  /// The squares of each parameter in the step; begins the step.
  std::vector<models::parameter_squares>
  measure(const at::Tensor& current, const mean_of& mean, double scale);

  /// A step from `current` into `next`.
  void apply(const at::Tensor& next, const at::Tensor& current,
             const mean_of& mean, const step_terms& with);

  std::string_view name() const { return first_->name(); }

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

  at::Tensor slot(size_t which) const;
  uint64_t steps_in(std::span<const uint64_t> of_fragments, size_t which,
                    uint64_t otherwise) const;
  its_mean part_of(const mean_of& mean, uint32_t fragment) const;
  at::Tensor own(const at::Tensor& whole, uint32_t fragment) const;
  template <class Use>
  void for_each(const mean_of& mean, Use use) const;

  std::optional<models::fragments> cuts_;
  std::vector<shard_model> all_; ///< Without weights where a fragment is empty.
  std::vector<uint64_t> steps_;  ///< Of each fragment, empty ones too.
  const models::optimizer* first_ = nullptr; ///< That has weights; or null.
};

} // namespace troupe
