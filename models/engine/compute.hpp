#pragma once
// The computations of workers and evaluators, without actors: loss and gradient
// of a batch, and the score of weights. Each compute or scorer actor owns an
// engine. Calls run on the calling thread, which has set its number of intra-op
// threads.

#include "config/text/settings.hpp"
#include "messages/lease.hpp"
#include "models/engine/arriving_weights.hpp"
#include "models/layout/flat_layout.hpp"

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>
#include <c10/core/Stream.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

namespace c10 {
struct Event;
} // namespace c10

namespace troupe::models {

/// The result of one batch.
struct gradient_result {
  bool cancelled = false; ///< If true, ignore the rest.
  double loss = 0;        ///< Mean over the samples, of smoothed labels.
  uint64_t samples = 0;
  /// Whether all numbers of a gradient that stays on a GPU are finite; nothing
  /// in the host's memory.
  std::optional<bool> finite = std::nullopt;
  /// With fp16: what the loss was multiplied by for this gradient, and how
  /// often it was computed before because the scale was too large.
  std::optional<double> scale = {};
  uint32_t overflows = 0;
};

/// What else a gradient depends on.
struct batch_context {
  /// Keys the masks of dropout layers, with the run's seed.
  lease from = {};
  /// The running statistics to start from; undefined: those in the weights.
  at::Tensor statistics = {};
  /// For weights that are still arriving: each layer waits for its own. If they
  /// never arrive the computation counts as cancelled.
  weights_wait arriving = nullptr;
  /// Called during backward: the gradient from this element to its end is
  /// final. The last call has 0.
  std::function<void(uint64_t first)> ready = nullptr;
  /// If inputs and targets are on the engine's GPU: after this event they may
  /// be read. They must stay until `run` returns. Null: they are in the host's
  /// memory.
  std::shared_ptr<const c10::Event> arrived = nullptr;
  /// If the batch is a part of a larger one: gradient and loss are this part's
  /// share in the means over all samples of the larger one.
  replica_part part = {};
  /// Checked on entry, after each forward and after each parameter's gradient;
  /// null: never. After a cancel the gradient is arbitrary.
  const std::atomic<bool>* cancel = nullptr;
};

/// The score of weights over a data set.
struct evaluation_result {
  bool cancelled = false; ///< If true, ignore the rest.
  double loss = 0;        ///< Mean cross entropy over the samples.
  double accuracy = 0;    ///< In [0, 1].
  /// Top-5 accuracy; nothing with five classes or fewer.
  std::optional<double> accuracy_top5 = {};
  uint64_t samples = 0;
};

/// Provides the next batch (inputs [n, C, H, W], targets [n] int64) in the
/// host's memory; returns false at the end. It may use the memory of a batch
/// again when it is asked for the second batch after it.
using batch_source =
  std::function<bool(at::Tensor& inputs, at::Tensor& targets)>;

/// One replica of a network and its working memory, on the device of the
/// settings: `cpu` or `cuda:N`. What is given and returned lies in memory of
/// the host on every device, unless a batch has been copied ahead, or weights
/// or gradient lie on that of the engine. Not thread-safe; may move from thread
/// to thread between calls.
class compute_engine {
public:
  /// @param frozen The numbers that are not trained, a buffer that nobody
  /// writes to any more; undefined: those that the network was made with.
  /// @pre A GPU's library is open (models/device/accelerator.hpp).
  /// @throws usage_error if the network is unknown, run_error if the
  /// frozen buffer does not fit.
  compute_engine(const config::training_settings& settings, int64_t classes,
                 const at::Tensor& frozen = {});

  ~compute_engine();

  compute_engine(compute_engine&&) noexcept;
  compute_engine& operator=(compute_engine&&) noexcept;

  /// Where each parameter lies in weights and gradients.
  const flat_layout& layout() const noexcept;

  /// Where it computes.
  c10::Device device() const noexcept;

  /// The stream of a GPU that it computes on; nothing on the CPU. Whoever gives
  /// it weights that lie there, or a buffer for the gradient, takes them on
  /// this stream.
  std::optional<c10::Stream> stream() const noexcept;

  /// New weights as PyTorch would draw them after manual_seed(seed), in
  /// `flat`. @pre No frozen buffer was given, and this is no engine of a GPU.
  void initial_weights(const at::Tensor& flat, uint64_t seed);

  /// Computes loss and gradient of one batch. The weights are read in place and
  /// released before this returns. Fully connected layers write their gradients
  /// straight into `gradient`; those of other parameters are copied there as
  /// soon as backward has made them, while they are still in the cache. All of
  /// `gradient` is overwritten (with zeros for a parameter without influence);
  /// the statistics behind it become those that forward makes of the ones in
  /// `about`. With `micro_batch_size` the parts of the batch are computed one
  /// after the other: gradients and losses are added up, weighted by samples,
  /// and each part continues from the previous part's statistics. In fp16 a
  /// gradient that is not finite is computed again with a smaller scale of the
  /// loss: `ready` is told of all of it at once, when it is known to be finite.
  /// @throws run_error if sizes do not fit, or LibTorch fails; in fp16 also
  /// without a GPU, and for a gradient that never becomes finite.
  gradient_result run(const at::Tensor& weights, const at::Tensor& inputs,
                      const at::Tensor& targets, const at::Tensor& gradient,
                      const batch_context& about = {});

  /// Scores the weights over all batches of `next`, without gradients; always
  /// in the type of the weights, and without label smoothing. A GPU copies and
  /// computes up to two batches while `next` makes another; the host waits for
  /// none but these.
  /// @param cancel Checked before each batch; may be null.
  /// @throws run_error if sizes do not fit, or LibTorch fails.
  evaluation_result evaluate(const at::Tensor& weights,
                             const batch_source& next,
                             const std::atomic<bool>* cancel = nullptr);

private:
  void require_fit(const at::Tensor& flat, const char* subject) const;

  struct state;
  std::unique_ptr<state> state_;
};

} // namespace troupe::models
