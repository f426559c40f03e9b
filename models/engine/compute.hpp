#pragma once
// What a worker and an evaluator compute, without actors: loss and gradient of
// a batch, and the score of weights. Plain calls on the calling thread, whose
// number of intra-op threads the caller has set.

#include "config/text/settings.hpp"
#include "messages/lease.hpp"
#include "models/engine/arriving_weights.hpp"
#include "models/layout/flat_layout.hpp"

#include <ATen/core/Tensor.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

namespace troupe::models {

/// What became of one batch.
struct gradient_result {
  bool cancelled = false; ///< Then nothing else here counts.
  double loss = 0;        ///< Mean over the samples, of smoothed labels.
  uint64_t samples = 0;
};

/// What else a gradient depends on.
struct batch_context {
  lease from; ///< Keys the masks of dropout layers, with the run's seed.
  /// Where running statistics begin; undefined: with those of the weights.
  at::Tensor statistics = {};
  /// Where the weights are still arriving: each layer waits for its own. If
  /// they do not come the computation counts as cancelled.
  weights_wait arriving = nullptr;
  /// Called while backward goes on: the gradient is there, and stays as it is,
  /// from this element to its end. Last with 0.
  std::function<void(uint64_t first)> ready = nullptr;
};

/// The score of weights over a data set.
struct evaluation_result {
  bool cancelled = false; ///< Then nothing else here counts.
  double loss = 0;        ///< Mean cross entropy over the samples.
  double accuracy = 0;    ///< In [0, 1].
  /// The same where the five highest scores count; not with five classes or
  /// fewer.
  std::optional<double> accuracy_top5 = {};
  uint64_t samples = 0;
};

/// Gives the next batch (inputs [n, C, H, W], targets [n] int64); false at the
/// end.
using batch_source =
  std::function<bool(at::Tensor& inputs, at::Tensor& targets)>;

/// One replica of a network and its scratch. Not thread-safe; may move from
/// thread to thread between calls.
class compute_engine {
public:
  /// @throws usage_error if network or device is unknown.
  compute_engine(const config::training_settings& settings, int64_t classes);

  ~compute_engine();

  compute_engine(compute_engine&&) noexcept;
  compute_engine& operator=(compute_engine&&) noexcept;

  /// Where each parameter lies in weights and gradients.
  const flat_layout& layout() const noexcept;

  /// New weights as PyTorch would draw them after manual_seed(seed), in
  /// `flat`.
  void initial_weights(const at::Tensor& flat, uint64_t seed);

  /// Loss and gradient of one batch. The weights are read in place and let go
  /// before this returns. Fully connected layers write their gradients into
  /// `gradient` at once; any other parameter's is copied there, as soon as
  /// backward has it and while it is in the cache. What was there before does
  /// not matter, and all of it is written (zeros where a parameter had no
  /// influence); the statistics behind it become what forward makes of those
  /// in `about`. With `micro_batch_size` the parts of the batch come one after
  /// the other: gradients and losses are added up, weighted by samples, and
  /// statistics go on from part to part.
  /// @param cancel Looked at on entry, after each forward and when each
  /// parameter's gradient is there; may be null. `gradient` is arbitrary
  /// afterwards.
  /// @throws run_error if sizes do not fit, or LibTorch fails.
  gradient_result run(const at::Tensor& weights, const at::Tensor& inputs,
                      const at::Tensor& targets, const at::Tensor& gradient,
                      const std::atomic<bool>* cancel = nullptr,
                      const batch_context& about = {});

  /// Score of the weights over all batches of `next`, without gradients; always
  /// in the type of the weights, and without smoothing.
  /// @param cancel Looked at before each batch; may be null.
  /// @throws run_error if sizes do not fit, or LibTorch fails.
  evaluation_result evaluate(const at::Tensor& weights,
                             const batch_source& next,
                             const std::atomic<bool>* cancel = nullptr);

private:
  struct state;
  std::unique_ptr<state> state_;
};

} // namespace troupe::models
