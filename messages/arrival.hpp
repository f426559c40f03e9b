#pragma once
// How far a tensor has come whose bytes are still on their way. Whoever has a
// handle of such a tensor may use what is there, and waits for the rest.
//
// Thread-safe: one thread receives, any may wait. What it wrote before it said
// so is visible to those that it lets go on.

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>

namespace troupe {

class arrival {
public:
  /// The bytes come from `start` to the end, then from the beginning.
  arrival(uint64_t bytes, uint64_t start);

  /// So many bytes are there by now.
  void reach(uint64_t bytes);

  /// No more will come. Without effect when all are there.
  void break_off();

  bool whole() const {
    return there_.load(std::memory_order_acquire) == bytes_;
  }

  /// Waits until the bytes [first, last) are there; false if they will not be.
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
