#pragma once
// Private to config/: rules that a single value must satisfy, whatever else is
// set. A rule returns an empty text when the value is right, else the reason
// why not; rules for names also replace other spellings by ours. Pure; any
// thread.

#include "config/text/value.hpp"

#include <span>
#include <string>

namespace troupe::config::rules {

/// Lowest and highest value allowed, for numbers of any type.
struct from {
  double lowest;
  double highest;

  template <class T>
  std::string operator()(const T& value) const {
    if (static_cast<double>(value) < lowest)
      return "must be at least " + print(lowest);
    if (static_cast<double>(value) > highest)
      return "must be at most " + print(highest);
    return "";
  }
};

inline constexpr from at_least_one{1, 1e15};

std::string above_zero(double value);
std::string below_one(double value); ///< In [0, 1).
std::string share(double value);     ///< In (0, 1].
std::string seconds(double value);   ///< A time that the clocks can hold.

/// One of a list of words.
struct one_of {
  std::span<const std::string> known;

  std::string operator()(std::string& value) const;
};

std::string policy(std::string& value); ///< A name, without parameters.
std::string network(std::string& value);
std::string dataset(std::string& value); ///< A name, or a declaration.
std::string augment(std::string& value);
std::string compression(std::string& value);
std::string lr_schedule(std::string& value);
std::string outliers(std::string& value);
std::string inner_optimizer(std::string& value);
std::string staleness_rule(std::string& value);
std::string metric_target(std::string& value);
std::string metric_order(std::string& value);
std::string key_patterns(const std::string& value);
std::string placement(std::string& value);
std::string param_groups(std::string& value);
/// A file or folder, or a word in its place, such as `auto`.
std::string path(std::string& value);
std::string init_method(std::string& value);
std::string host(std::string& value); ///< Without the brackets of IPv6.
std::string host_and_port(const std::string& value);
std::string advertise(const std::string& value); ///< HOST or HOST:PORT.
std::string distribution(const std::string& value);
std::string rate(const std::string& value);  ///< A number above 0.
std::string delay(const std::string& value); ///< Seconds, 0 or more.
std::string device(std::string& value);
std::string faults(std::string& value); ///< A path, or random(...).
std::string policy_changes(const std::string& value);

} // namespace troupe::config::rules
