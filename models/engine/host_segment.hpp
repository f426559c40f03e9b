#pragma once
// A segment whose owner keeps buffers and activations in the host's memory,
// wherever the segment computes. On the CPU it uses them in place. A GPU has
// copies of the segment's own parameters alone, so that a network that is cut
// into parts may be larger than the memory of one GPU.

#include "models/engine/segment.hpp"

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

namespace troupe::models {

/// A micro-batch between forward and backward.
struct host_pass {
  segment_pass there;
  at::Tensor outputs; ///< In the host's memory, without their graph.
};

/// Not thread-safe; may move from thread to thread between calls. Throws as a
/// segment does.
class host_segment {
public:
  /// As a segment; `range` are the elements of the owner's buffers.
  host_segment(const config::training_settings& settings, int64_t classes,
               const at::Tensor& frozen = {}, part_range which = {},
               std::optional<element_range> range = {});

  ~host_segment();

  host_segment(const host_segment&) = delete;
  host_segment& operator=(const host_segment&) = delete;

  network& net() { return segment_.net(); }

  const flat_layout& layout() const noexcept { return segment_.layout(); }

  const element_range& statistics() const noexcept {
    return segment_.statistics();
  }

  /// As segment::begin. `ready` and `arriving` are for whole networks: they
  /// must be null. @throws run_error if sizes do not fit.
  void begin(const segment_batch& batch);

  host_pass forward(const at::Tensor& inputs, const dropout_key& drop,
                    bool first);

  /// As segment::backward, of the outputs themselves. With the last micro-batch
  /// the gradient and the statistics are in the owner's buffers.
  /// @param scale In half precision: the factor of the loss, which is then
  /// divided out of the gradient; 0: the loss has no factor.
  at::Tensor backward(const host_pass& pass, const at::Tensor& gradient,
                      micro_batch_place at, double scale = 0);

  /// Whether the gradient of the last batch was not finite under its scale.
  bool overflowed() const noexcept { return overflowed_; }

  /// Releases the buffers of the batch.
  void end();

private:
  struct device_copies;

  segment segment_;
  std::unique_ptr<device_copies> copies_; ///< Null on the CPU.
  bool overflowed_ = false;
};

} // namespace troupe::models
