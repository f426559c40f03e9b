#pragma once
// Decides when a node ends that is both a worker and a shard (`--topology
// peers`): when both of its parts have ended. If the worker ends early, the
// shard goes on, because the other nodes need it. If the shard fails or is told
// to stop, the node ends at once.
//
// Owned by main; any thread.

#include "messages/types.hpp"

#include <functional>
#include <mutex>
#include <optional>
#include <utility>

namespace troupe::app {

class joint_end {
public:
  /// @param tell Called once, with the end of the node.
  explicit joint_end(std::function<void(const run_end&)> tell)
    : tell_(std::move(tell)) {
    // nop
  }

  void shard_ended(const run_end& how) {
    std::unique_lock guard{mutex_};
    shard_ = how;
    look();
  }

  void worker_ended(const run_end& how) {
    std::unique_lock guard{mutex_};
    worker_ = how;
    look();
  }

  /// Whether the shard has ended. Then a worker that has not begun has nothing
  /// to do.
  bool shard_is_over() {
    std::unique_lock guard{mutex_};
    return shard_.has_value();
  }

private:
  void look() {
    if (told_ || !shard_ || (shard_->status == 0 && !worker_))
      return;
    told_ = true;
    tell_(shard_->status == 0 ? *worker_ : *shard_);
  }

  std::function<void(const run_end&)> tell_;
  std::mutex mutex_;
  std::optional<run_end> shard_, worker_;
  bool told_ = false;
};

} // namespace troupe::app
