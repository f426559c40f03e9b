#pragma once
// The report of a round of local steps: what its steps report, together. A
// worker and a replay add up alike, so that both have the same bits.
//
// A value; not thread-safe.

#include "messages/types.hpp"

namespace troupe {

class report_sum {
public:
  /// Adds a step, or the end of the round without one.
  void add(const gradient_report& step);

  /// Means over the samples, and sums of times; gradient, statistics and state
  /// are those of the last step.
  gradient_report mean() const;

private:
  gradient_report sum_;
  double loss_ = 0; ///< Times the samples.
};

} // namespace troupe
