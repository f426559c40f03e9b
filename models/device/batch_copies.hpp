#pragma once
// Copies batches to a GPU on a stream of its own, while the GPU computes those
// before. A loader has one, and an engine that evaluates; used by one thread at
// a time.

#include <ATen/core/Tensor.h>
#include <c10/core/Event.h>
#include <c10/core/Stream.h>

#include <memory>

namespace troupe::models {

/// A batch that is on its way to a GPU.
struct copied_batch {
  at::Tensor inputs;
  at::Tensor targets;
  /// After it both may be read, by a stream that waits for it. Whoever reads
  /// them on a stream keeps them until that is over.
  std::shared_ptr<c10::Event> arrived;
};

class batch_copies {
public:
  /// @pre The GPU's library is open (accelerator.hpp).
  explicit batch_copies(c10::Device where);

  /// Enqueues the copies. Only from pinned memory do they run beside the host;
  /// then the caller may write to it only when a reader of the batch is done,
  /// but may release it at once.
  copied_batch place(const at::Tensor& inputs, const at::Tensor& targets) const;

private:
  c10::Stream stream_;
};

} // namespace troupe::models
