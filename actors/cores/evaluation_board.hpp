#pragma once

#include "messages/ids.hpp"

#include <optional>

namespace troupe::cores {

/// Which version is to be scored next. Evaluators skip to the newest one: a
/// slow evaluator never holds training up and never queues. Pure.
class evaluation_board {
public:
  /// Every `frequency`-th version is due.
  explicit evaluation_board(uint64_t frequency) : frequency_(frequency) {
    // nop
  }

  /// A version was made. Returns true when it becomes due.
  bool updated(version made) {
    if (last_ || made.value % frequency_ != 0)
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
  void scored(version what) {
    if (!scored_ || *scored_ < what)
      scored_ = what;
  }

  /// What an evaluator gets that has seen versions up to `after`.
  std::optional<version> next(version after) const {
    if (due_ && *due_ > after)
      return due_;
    return std::nullopt;
  }

  /// Is the last version still to be scored?
  bool last_open() const {
    return last_ && last_->value > 0 && scored_ != last_;
  }

  bool is_last(version what) const { return last_ == what; }

private:
  uint64_t frequency_;
  std::optional<version> due_;
  std::optional<version> last_;
  std::optional<version> scored_;
};

} // namespace troupe::cores
