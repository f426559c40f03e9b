#pragma once
// Threads that share a pass over flat memory: the caller's own, and others that
// sleep between passes. They take pieces of the memory in turn, so that one
// which gets a core late holds nobody up. A pass that computes each element by
// itself gives the same bits with any number of threads. Owned by a parameter
// server or shard.
//
// Copies share the threads. Only one pass at a time, called from one thread.

#include <cstddef>
#include <functional>
#include <memory>

namespace c10 {
class ThreadPool;
} // namespace c10

namespace troupe::models {

/// The fewest numbers that are worth another thread: with less, waking it takes
/// longer than the work.
constexpr size_t least_part = 16 * 1024;

/// The same for a pass that only checks that numbers are finite.
constexpr size_t least_checked_part = 512 * 1024;

class lanes {
public:
  /// Only the caller's thread.
  lanes() = default;

  /// @param count Threads, including the caller's; at least 1.
  explicit lanes(size_t count);

  /// The number of threads of a pass.
  size_t count() const;

  /// Calls `work(first, end)` in parallel for ranges that make up [0, count),
  /// and returns when all are done. Ranges begin at multiples of `grain`; a
  /// thread may get several.
  /// @throws what the first failing range threw, after all have ended.
  void each(size_t count, size_t grain,
            const std::function<void(size_t, size_t)>& work) const;

private:
  std::shared_ptr<c10::ThreadPool> others_; ///< Null: none.
};

} // namespace troupe::models
