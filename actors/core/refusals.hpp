#pragma once
// Decides when a worker that sends unusable gradients is expelled.
//
// A value, owned by the step scheduler; not thread-safe.

#include "messages/ids.hpp"

#include <unordered_map>

namespace troupe::cores {

/// Counts the unusable gradients (wrong size, not finite) that a worker sends
/// in a row. One bad gradient is forgiven; a worker that sends nothing else
/// would only make the others wait.
class refusals {
public:
  static constexpr uint32_t default_limit = 20;

  explicit refusals(uint32_t limit = default_limit) : limit_(limit) {
    // nop
  }

  /// A gradient of `who` was refused. Returns true when the worker is to be
  /// expelled.
  bool refused(worker_id who) { return ++in_a_row_[who] >= limit_; }

  /// A gradient of `who` was sound (whether or not it was in time).
  void sound(worker_id who) { in_a_row_.erase(who); }

  /// `who` has left, or begins a new life.
  void forget(worker_id who) { in_a_row_.erase(who); }

  uint32_t in_a_row(worker_id who) const {
    auto i = in_a_row_.find(who);
    return i == in_a_row_.end() ? 0 : i->second;
  }

private:
  uint32_t limit_;
  std::unordered_map<worker_id, uint32_t> in_a_row_;
};

} // namespace troupe::cores
