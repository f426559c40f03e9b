#include "models/optim/lanes.hpp"

#include <c10/core/thread_pool.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <vector>

namespace troupe::models {

lanes::lanes(size_t count) {
  if (count > 1)
    others_ = std::make_shared<c10::ThreadPool>(static_cast<int>(count - 1));
}

size_t lanes::count() const {
  return others_ ? others_->size() + 1 : 1;
}

// The pool itself drops what a task throws.
void lanes::each(size_t count, size_t grain,
                 const std::function<void(size_t, size_t)>& what) const {
  auto grains = (count + grain - 1) / grain;
  auto parts = std::min(this->count(), grains);
  if (parts < 2)
    return what(0, count);
  std::vector<std::exception_ptr> failed(parts);
  // Orders the memory of caller and threads. The pool's locks do so, too; but
  // LibTorch has no ThreadSanitizer built in, so that one does not see them.
  std::atomic<size_t> left;
  auto do_part = [&](size_t i) noexcept {
    (void)left.load(std::memory_order_acquire);
    try {
      what(grains * i / parts * grain,
           std::min(count, grains * (i + 1) / parts * grain));
    } catch (...) {
      failed[i] = std::current_exception();
    }
    left.fetch_sub(1, std::memory_order_acq_rel);
  };
  left.store(parts, std::memory_order_release);
  for (size_t i = 1; i < parts; ++i)
    others_->run([&do_part, i] { do_part(i); });
  do_part(0);
  others_->waitWorkComplete();
  (void)left.load(std::memory_order_acquire);
  for (const auto& why : failed)
    if (why)
      std::rethrow_exception(why);
}

} // namespace troupe::models
