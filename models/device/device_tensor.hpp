#pragma once
// A flat tensor on a GPU as the memory of a payload: work of other streams and
// threads reads it in order, and the host gets a copy when it asks.

#include "messages/device_memory.hpp"
#include "messages/payload_memory.hpp"

#include <ATen/core/Tensor.h>
#include <c10/core/Event.h>
#include <c10/core/Stream.h>

#include <memory>
#include <mutex>
#include <vector>

namespace troupe::models {

/// Thread-safe.
class device_tensor final : public device_memory {
public:
  /// @param flat Flat and contiguous. What the current stream has been given up
  /// to now makes its numbers final.
  /// @param copies Where the host's copy comes from: blocks of this size; null:
  /// pinned memory.
  device_tensor(at::Tensor flat, std::shared_ptr<payload_pool> copies);

  ~device_tensor() override;

  int device() const override { return flat_.device().index(); }

  const std::byte* address() const override;

  void* written() const override { return written_.eventId(); }

  std::span<const std::byte> host_bytes() const override;

  /// The tensor, for reading by what is enqueued on the current stream from now
  /// on.
  at::Tensor read() const;

  /// The streams on which `read` was called, each once; from now on whoever
  /// gets them sees to it that they have read before the memory is used again.
  std::vector<c10::Stream> take_readers() const;

private:
  at::Tensor flat_;
  c10::Event written_;
  std::shared_ptr<payload_pool> copies_;
  mutable std::mutex mutex_;
  mutable std::vector<c10::Stream> readers_; ///< Each once.
  mutable memory_block copy_;                ///< Null until somebody asks.
};

/// What is enqueued on the current stream of this tensor's device from now on
/// comes after all that these streams have been given.
void wait_for(const std::vector<c10::Stream>& readers, const at::Tensor& flat);

/// The memory of the tensor is not used again before these streams have done
/// what they have been given.
void keep_for(const std::vector<c10::Stream>& readers, at::Tensor flat);

/// A pool for the host's copies of tensors of so many bytes.
/// @param memory Where they lie; the heap stands for pinned memory.
std::shared_ptr<payload_pool> pool_of_copies(uint64_t bytes,
                                             const payload_memory_ptr& memory);

} // namespace troupe::models
