#pragma once
// Decides which version of the weights evaluators score next.
//
// A part of the version feed, on the parameter server's thread. Pure: no
// actors, no clock. Not thread-safe.

#include "messages/ids.hpp"

#include <cstdint>
#include <optional>
#include <utility>

namespace troupe::cores {

/// Which version is to be scored next. Evaluators skip to the newest one: a
/// slow evaluator never delays training and never builds up a queue.
class evaluation_board {
public:
  /// Every `frequency`-th version is due. With 0, a version is due when it
  /// completes an epoch after the first `epochs`.
  explicit evaluation_board(uint64_t frequency, uint64_t epochs = 0)
    : frequency_(frequency), epochs_(epochs) {
    // nop
  }

  /// One decision made the versions after `before` up to `made`; `epochs`
  /// epochs are complete with it. Others get only the last of these versions,
  /// so it becomes due if any of them would. Returns whether it does.
  bool updated(version before, version made, uint64_t epochs) {
    auto completes = epochs > std::exchange(epochs_, epochs);
    auto due = frequency_ == 0
                 ? completes
                 : made.value / frequency_ > before.value / frequency_;
    if (last_ || !due)
      return false;
    due_ = made;
    return true;
  }

  /// The run ends at this version, which is due whatever its number.
  void finish(version last) {
    last_ = last;
    due_ = last;
  }

  /// A version was scored.
  void scored(version number) {
    if (!scored_ || *scored_ < number)
      scored_ = number;
  }

  /// The version for an evaluator that has seen all up to `after`.
  std::optional<version> next(version after) const {
    if (due_ && *due_ > after)
      return due_;
    return std::nullopt;
  }

  /// Whether the last version is still to be scored.
  bool last_open() const {
    return last_ && last_->value > 0 && scored_ != last_;
  }

  bool is_last(version number) const { return last_ == number; }

private:
  uint64_t frequency_;
  uint64_t epochs_;
  std::optional<version> due_;
  std::optional<version> last_;
  std::optional<version> scored_;
};

} // namespace troupe::cores
