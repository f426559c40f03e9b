#include "messages/arrival.hpp"

namespace troupe {

arrival::arrival(uint64_t bytes, uint64_t start)
  : bytes_(bytes), start_(start) {
  // nop
}

void arrival::reach(uint64_t bytes) {
  {
    std::lock_guard guard{mutex_};
    there_.store(bytes, std::memory_order_release);
  }
  changed_.notify_all();
}

void arrival::break_off() {
  {
    std::lock_guard guard{mutex_};
    broken_ = true;
  }
  changed_.notify_all();
}

/// How many bytes must have arrived before all of these are there.
uint64_t arrival::needed_for(uint64_t first, uint64_t last) const {
  if (first >= last)
    return 0;
  if (last <= start_)
    return last + bytes_ - start_;
  return first < start_ ? bytes_ : last - start_;
}

bool arrival::wait_for(uint64_t first, uint64_t last) {
  auto needed = needed_for(first, last);
  if (there_.load(std::memory_order_acquire) >= needed)
    return true;
  std::unique_lock guard{mutex_};
  changed_.wait(guard, [&] { return broken_ || there_ >= needed; });
  return there_ >= needed;
}

} // namespace troupe
