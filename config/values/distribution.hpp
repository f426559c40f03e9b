#pragma once
// Declared distributions of durations, such as `--compute-time`:
//
//   constant(1)                      always so many seconds
//   gamma(mean=1,cv=0.1)             cv: standard deviation / mean
//   exp(offset=0.5,mean=0.5)         offset + exponential
//   pareto(alpha=2.5,mean=1)         heavy tail; alpha > 1
//   transient(base=D,p=0.05,factor=5)  now and then slower: a draw of D is
//                                      multiplied with probability p
//   slow(base=D,worker=0,factor=4)     one worker is always slower
//
// Here is what a declaration says; drawing from it is the simulation's part.

#include <map>
#include <memory>
#include <string>
#include <string_view>

namespace troupe::config {

struct distribution {
  std::string name;
  /// Parameters by name, in seconds where they are durations. The single one
  /// of `constant` is called `value`.
  std::map<std::string, double, std::less<>> numbers;
  /// Of `transient` and `slow`: the distribution that is made slower.
  std::shared_ptr<const distribution> base;
};

/// Reads a declaration, all of it. Throws `bad_value` that says what is wrong.
distribution parse_distribution(std::string_view text);

} // namespace troupe::config
