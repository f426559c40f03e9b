#pragma once
// Flat buffers of an engine on a GPU, and the copies between them and the
// host's. Copies of gradients run on a stream beside the one that computes, so
// that backward goes on meanwhile. An engine has one; used by its thread, and
// during backward by LibTorch's.

#include "models/layout/flat_layout.hpp"

#include <ATen/core/Tensor.h>
#include <c10/core/Event.h>
#include <c10/core/Stream.h>
#include <c10/core/StreamGuard.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <vector>

namespace troupe::models {

/// Numbers of a GPU on their way to the host.
struct arriving_numbers {
  at::Tensor there; ///< In the host's memory.
  c10::Event arrived;

  /// Waits for them alone.
  std::vector<double> read() const;
};

/// Not thread-safe; one batch at a time.
class device_transfers {
public:
  /// Memory of the device is taken at the first batch.
  device_transfers(c10::Device where, const flat_layout& layout);

  c10::Device device() const { return compute_.device(); }

  /// What computes does so on this stream, which it makes the current one.
  c10::Stream compute_stream() const { return compute_; }

  /// These weights on the device, until the next call: they are enqueued to be
  /// there before what is enqueued after. Those that lie there stay where they
  /// are.
  at::Tensor place_weights(const at::Tensor& weights);

  /// The inputs of a batch, likewise.
  at::Tensor place(const at::Tensor& host) const;

  /// A flat buffer on the device for the gradient of a batch, with arbitrary
  /// content.
  /// @param wanted Where the gradient is to be. On the device it is this buffer
  /// itself, and nothing is copied.
  /// @param told As batch_context's `ready`; may be empty.
  at::Tensor begin_gradient(const at::Tensor& wanted,
                            std::function<void(uint64_t)> told);

  /// The gradient from this element to its end has been enqueued. Copies what
  /// has gathered, and tells of what has arrived.
  void advance(uint64_t first);

  /// Waits until all of the gradient has arrived.
  void finish_gradient();

  /// Begins to copy these numbers of the device, of one type, to the host,
  /// behind what has been enqueued to compute them.
  arriving_numbers send_numbers(const std::vector<at::Tensor>& numbers) const;

  /// The host has waited for all that was enqueued since place_weights.
  void note_computed() noexcept { is_computing_ = false; }

  /// Waits until nobody reads or writes to the host's buffers any more, and
  /// forgets them. What is enqueued of a cancelled batch is computed before.
  void abandon_gradient() noexcept;

private:
  /// A piece on its way: its last copy makes all from `first` final.
  struct piece {
    uint64_t first;
    c10::Event arrived;
  };

  void copy_from(uint64_t first);
  void tell_arrived(bool wait);

  c10::Stream compute_;
  c10::Stream copies_;
  int64_t count_;
  at::ScalarType dtype_;
  uint64_t piece_elements_;
  at::Tensor weights_;
  at::Tensor gradient_;

  // Of the batch in hand:
  at::Tensor host_; ///< Undefined if the gradient stays.
  std::function<void(uint64_t)> told_;
  uint64_t missing_ =
    0; ///< Elements before the first one that is being copied.
  std::deque<piece> pieces_;
  bool is_computing_ = false; ///< As far as the host knows.
};

} // namespace troupe::models
