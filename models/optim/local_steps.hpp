#pragma once
// Steps that a worker makes on its own, with an optimiser of its own, and the
// difference that comes of them: local SGD (Stich 2019, "Local SGD Converges
// Fast and Communicates Little", ICLR, arXiv:1805.09767), and with an outer
// optimiser DiLoCo (Douillard et al. 2023, arXiv:2311.08105, algorithm 1).
//
// A round begins with the weights of a version, makes steps, and ends with the
// difference: the weights that it began with minus those that it has come to.
// The server's optimiser takes it for a gradient.
//
// A worker may also go on with the weights that it has come to, and merge those
// of the server into them when they come (Douillard et al. 2025, "Streaming
// DiLoCo with overlapping communication", arXiv:2501.18512, sections 2.2, 2.3).
//
// Owned by the actor that computes; works on the current stream of the device
// of the settings. Not thread-safe.

#include "config/text/settings.hpp"
#include "models/layout/flat_layout.hpp"
#include "models/layout/fragments.hpp"
#include "models/optim/learning_rate.hpp"
#include "models/optim/optimizer.hpp"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <vector>

namespace troupe::models {

/// A copy of the state of a worker's own optimiser.
struct inner_numbers {
  uint64_t steps = 0;
  std::vector<named_slot> slots{}; ///< In the host's memory.
};

class local_steps {
public:
  /// @param settings Those of the run; the inner optimiser is in them.
  /// @throws usage_error if there is no such optimiser, or there are more
  /// fragments than parameters.
  local_steps(const config::training_settings& settings,
              const flat_layout& layout);

  /// Begins a round; what was made of another since its end is lost.
  /// @param weights A flat buffer of the layout, which nobody writes to before
  /// the end of the round. All of it must have arrived before the first step.
  /// @param from The state of the optimiser to go on from; null: a new one.
  void begin(const at::Tensor& weights,
             const std::shared_ptr<const inner_numbers>& from);

  /// The elements of a fragment that are exchanged.
  element_range range_of(uint32_t fragment) const {
    return fragments_.all(fragment);
  }

  /// The fragment whose turn was before this one's.
  uint32_t before(uint32_t fragment) const {
    return fragments_.before(fragment);
  }

  /// Begins a round on the weights that the round before has come to.
  void go_on(const std::shared_ptr<const inner_numbers>& from);

  /// Takes the newest numbers of a fragment into the weights; the other
  /// fragments stay as they are. The difference of this round will be to these
  /// numbers.
  /// @param numbers A flat buffer of the fragment's range.
  /// @param made Steps since the round began: the weights become the mean of
  /// themselves and the numbers. If it is 0, they become the numbers.
  /// @throws run_error if the buffer has another size.
  void merge(uint32_t fragment, const at::Tensor& numbers, uint64_t made);

  /// The weights that the next gradient is computed on, with the running
  /// statistics behind them; changed by the next step.
  const at::Tensor& weights() const { return weights_; }

  /// Makes a step, and takes over the statistics behind the gradient. Numbers
  /// that are not finite become part of the weights, and so of the difference.
  /// @param where How far the worker's own schedule has come.
  /// @throws run_error if the gradient does not fit.
  void step(const at::Tensor& gradient, const training_progress& where);

  /// Writes the difference of a fragment, with the newest statistics behind it
  /// if the fragment has them. Returns the range of `to` that was written.
  at::Tensor finish(const at::Tensor& to, uint32_t fragment = 0);

  /// A copy of the state of the optimiser.
  /// @param into Memory of an earlier copy that nobody else uses; may be null.
  std::shared_ptr<const inner_numbers>
  copy_state(std::shared_ptr<inner_numbers> into = nullptr) const;

private:
  void load(const std::shared_ptr<const inner_numbers>& from);

  flat_layout layout_;
  fragments fragments_;
  config::training_settings settings_; ///< Of the inner optimiser.
  learning_rate rate_;
  std::unique_ptr<optimizer> optimizer_;
  /// The state that the optimiser has now, if it is that of a copy.
  std::shared_ptr<const inner_numbers> loaded_;
  /// The weights that the round began with; of each fragment those that the
  /// worker was given last.
  at::Tensor first_;
  at::Tensor own_;     ///< Memory of the weights after a step.
  at::Tensor weights_; ///< One of the two.
};

} // namespace troupe::models
