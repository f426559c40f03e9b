#pragma once
// Threads that share a pass over flat memory: the caller's own, and others that
// sleep until there is a pass. Each part of the memory is one thread's alone,
// so a pass whose elements are computed by themselves gives the same bits with
// any number of them.
//
// Copies share the threads. One pass at a time.

#include <cstddef>
#include <functional>
#include <memory>

namespace c10 {
class ThreadPool;
} // namespace c10

namespace troupe::models {

class lanes {
public:
  /// The caller's thread alone.
  lanes() = default;

  /// @param count Threads, the caller's among them; at least 1.
  explicit lanes(size_t count);

  /// Threads of a pass.
  size_t count() const;

  /// Calls `what(first, end)` for ranges that make up [0, count), side by side,
  /// and returns when all are done. Ranges begin at multiples of `grain`.
  /// @throws what the first range that failed has thrown; the others are done.
  void each(size_t count, size_t grain,
            const std::function<void(size_t, size_t)>& what) const;

private:
  std::shared_ptr<c10::ThreadPool> others_; ///< Null: none.
};

} // namespace troupe::models
