#pragma once
// A run of parts of a network with one owner: forward and backward over flat
// buffers. The compute engine has one over all parts; remote modules and the
// stages of a pipeline have one each.
//
// A batch may be cut into micro-batches. Forward of several of them may come
// before backward of the first, but each direction takes them in their order:
// then gradients and running statistics are bit for bit those of one
// micro-batch after the other.

#include "config/text/settings.hpp"
#include "models/dropout.hpp"
#include "models/engine/arriving_weights.hpp"
#include "models/gradient_places.hpp"
#include "models/layout/flat_layout.hpp"
#include "models/layout/shard_cuts.hpp"
#include "models/network.hpp"

#include <ATen/core/Tensor.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

namespace troupe::models {

/// The buffers of a batch in hand, on the segment's device, and what it waits
/// for.
struct segment_batch {
  /// The owner's range of the weights; nobody writes to it.
  at::Tensor weights = {};
  /// The same range of the gradient. The segment overwrites its parameters'
  /// places, with zeros for a parameter without influence.
  at::Tensor gradient = {};
  /// The statistics of the segment's parts, which forward changes in place.
  at::Tensor statistics = {};
  const std::atomic<bool>* cancel = nullptr;
  /// For weights that are still arriving.
  const weights_wait* arriving = nullptr;
  /// Called during the last backward: the gradient from this element to its end
  /// is final.
  const std::function<void(uint64_t first)>* ready = nullptr;
};

/// Where a micro-batch stands among those of its batch.
struct micro_batch_place {
  bool first = true;
  bool last = true;
};

/// A micro-batch between forward and backward; keeps its graph alive.
struct segment_pass {
  at::Tensor inputs;
  at::Tensor outputs;
};

/// The outputs of these parts of a network, one after the other.
at::Tensor pass_through(network& net, const part_range& parts,
                        const at::Tensor& inputs, const pass_context& with);

/// Computes on the device of the settings, `cpu` or `cuda:N`, in the stream
/// that is current. Not thread-safe; may move from thread to thread between
/// calls. What LibTorch throws is passed on; a cancelled call throws
/// `cancelled`, after which the batch is over.
class segment {
public:
  /// @param frozen The numbers that are not trained, a buffer that nobody
  /// writes to any more; undefined: those that the network was made with.
  /// @param range The owner's elements of the flat buffers; nothing: all.
  /// @throws usage_error if the network is unknown, run_error if the frozen
  /// buffer does not fit, or a parameter lies outside of the range.
  segment(const config::training_settings& settings, int64_t classes,
          const at::Tensor& frozen = {}, part_range which = {},
          std::optional<element_range> range = {});

  segment(const segment&) = delete;
  segment& operator=(const segment&) = delete;

  network& net() { return *net_; }

  /// The layout of the whole network.
  const flat_layout& layout() const noexcept { return layout_; }

  /// Where the statistics of its parts lie among all statistics.
  const element_range& statistics() const noexcept { return statistics_range_; }

  /// Its parameters, relative to the first element of its buffers.
  const std::vector<parameter_slot>& slots() const noexcept { return slots_; }

  /// Makes the buffers of batches as small as they can be: from now on they
  /// have the elements from its first parameter to the end of its last.
  /// Returns these, relative to the buffers before. @pre No batch is in hand.
  element_range tighten();

  // -- batches ----------------------------------------------------------------

  /// Binds the buffers of a batch. @throws run_error if sizes do not fit.
  void begin(const segment_batch& batch);

  /// @param inputs Samples, or the outputs of the part before.
  segment_pass forward(const at::Tensor& inputs, const dropout_key& drop,
                       bool first);

  /// @param outputs Those of `pass`, or a number made from them.
  /// @param gradient Of `outputs`; undefined for a number.
  /// @returns the gradient of the inputs; undefined if nothing before this
  /// segment can need it.
  at::Tensor backward(const segment_pass& pass, const at::Tensor& outputs,
                      const at::Tensor& gradient, micro_batch_place at);

  /// Waits for weights that are still arriving.
  void wait_for_all();

  /// Releases the buffers of the batch.
  void end();

  // -- scores -----------------------------------------------------------------

  /// Binds whole weights with their statistics, until `end`.
  /// @throws run_error if the size does not fit.
  void bind(const at::Tensor& weights);

  /// Scores without gradients, by the statistics that are bound.
  at::Tensor score(const at::Tensor& inputs);

private:
  std::vector<parameter_slot> own(const std::vector<parameter_slot>& all) const;
  void bind_frozen(const at::Tensor& flat);
  void set_training(bool on);
  bool has_frozen_statistics(const torch::nn::Module& layer) const;
  void take_gradient(size_t i, const at::Tensor& x);
  void tell_ready(size_t i);
  void fill_gaps();

  c10::Device device_;
  std::shared_ptr<network> net_;
  flat_layout layout_;
  part_range which_;
  element_range range_;
  bool whole_;                        ///< All parts.
  std::vector<parameter_slot> slots_; ///< Relative to its owner's range.
  std::vector<parameter_slot> statistic_slots_; ///< Relative to the first.
  element_range statistics_range_;
  std::vector<at::Tensor> parameters_;
  std::vector<at::Tensor> statistics_;
  std::vector<at::Tensor> frozen_;
  /// Layers that normalise by their frozen statistics while others train; outer
  /// ones first.
  std::vector<torch::nn::Module*> still_;
  std::optional<bool> training_; ///< The mode that the others are in.
  std::optional<at::ScalarType> short_type_; ///< Of forward, if another.
  /// Bound in place of the weights between two batches, to release the version.
  at::Tensor nothing_;

  // Of the batch in hand:
  segment_batch batch_;
  /// Where the gradients belong, in the order of the parameters, and which of
  /// them are there.
  gradient_places places_;
  std::vector<bool> written_;
  std::vector<bool> settled_; ///< Those that nothing is added to any more.
  micro_batch_place at_;      ///< Of the backward pass that runs.
  size_t missing_ = 0; ///< Parameters before those whose gradients are final.
};

} // namespace troupe::models
