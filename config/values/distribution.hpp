#pragma once
// Distributions of durations, as `--compute-time` declares them:
//
//   constant(1)                      always this many seconds
//   gamma(mean=1,cv=0.1)             cv: standard deviation / mean
//   exp(offset=0.5,mean=0.5)         offset + exponential
//   pareto(alpha=2.5,mean=1)         heavy tail; alpha > 1
//   transient(base=D,p=0.05,factor=5)  now and then slower: a draw of D is
//                                      multiplied with probability p
//   slow(base=D,worker=0,factor=4)     one worker is always slower
//
// Here the declaration is only read; the simulation draws from it. Plain
// values.

#include <map>
#include <memory>
#include <string>
#include <string_view>

namespace troupe::config {

struct distribution {
  std::string name;
  /// Parameters by name; durations are in seconds. The only parameter of
  /// `constant` is called `value`.
  std::map<std::string, double, std::less<>> numbers;
  /// For `transient` and `slow`: the distribution that is slowed down.
  std::shared_ptr<const distribution> base;
};

/// Reads a whole declaration. Throws `bad_value`, which says what is wrong.
distribution parse_distribution(std::string_view text);

} // namespace troupe::config
