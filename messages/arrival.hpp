#pragma once
// The progress of a tensor whose bytes are still being received. Whoever holds
// a payload of such a tensor may use the bytes that are there and wait for the
// others. Shared by the receiving path and the readers of the payload.
//
// Thread-safe: one thread receives, any thread may wait. Bytes that were
// written before `reach` are visible to the threads that it wakes.

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>

namespace troupe {

class arrival {
public:
  /// The bytes arrive from `start` to the end, then from 0 to `start`.
  arrival(uint64_t bytes, uint64_t start);

  /// So many bytes have arrived in total.
  void reach(uint64_t bytes);

  /// No more bytes will arrive: wakes all who wait. Has no effect when all have
  /// arrived.
  void break_off();

  bool whole() const {
    return there_.load(std::memory_order_acquire) == bytes_;
  }

  /// Waits until the bytes [first, last) have arrived; false if they never
  /// will.
  bool wait_for(uint64_t first, uint64_t last);

  bool wait_for_all() { return wait_for(0, bytes_); }

private:
  uint64_t needed_for(uint64_t first, uint64_t last) const;

  const uint64_t bytes_;
  const uint64_t start_;
  std::atomic<uint64_t> there_ = 0;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool broken_ = false;
};

using arrival_ptr = std::shared_ptr<arrival>;

} // namespace troupe
