#pragma once
// The one grammar of values that are written like a call, such as
// `ssp(staleness=3)`: a schema says which names there are, which parameters
// each has, and which values these may have. Policies, distributions,
// schedules, augmentation, compression, data sets and faults are read with it,
// so that they have the same spelling, the same errors and the same help.
//
// Values; any thread.

#include "config/text/call.hpp"

#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::config {

/// As good as no limit.
inline constexpr double largest_number = std::numeric_limits<double>::max();
inline constexpr uint64_t largest_rank = 1'000'000'000;

/// Which values a parameter may have.
struct value_range {
  enum class kind : uint8_t { whole, number, word, text };

  kind what = kind::text;
  double least = 0;
  double most = largest_number;
  bool above_least = false;       ///< `least` itself is not allowed.
  std::vector<std::string> words; ///< Of a word.

  /// Checks a value and returns it as it is kept and shown. Throws `bad_value`.
  std::string read(std::string_view text) const;
};

/// A whole number, both ends included.
value_range whole(uint64_t least, uint64_t most);
/// A number, both ends included.
value_range number_from(double least, double most);
value_range number_above(double least);
/// Above `least`, up to and including `most`.
value_range number_above(double least, double most);
value_range one_of_words(std::vector<std::string> words);
value_range any_text();

struct parameter {
  std::string name;        ///< "staleness"
  std::string placeholder; ///< What stands for the value in the help: "S".
  std::string help;        ///< Meaning and unit.
  value_range range;
  /// Empty: there is none. Then it has to be given, unless it is optional.
  std::string by_default{};
  bool optional = false;
};

/// What may be written for one name.
struct call_schema {
  std::string name;
  std::vector<parameter> parameters;
  /// The first parameter may be given by its value alone: `constant(1)`.
  bool bare_first = false;

  /// Null when there is none.
  const parameter* find(std::string_view name) const;
};

/// The values of a call's parameters by their names: those that were given, and
/// defaults for the others.
class arguments {
public:
  bool has(std::string_view name) const { return values_.contains(name); }

  /// The value of a parameter. Throws `std::out_of_range` for one that the
  /// schema does not have, or that is optional and was not given.
  const std::string& text(std::string_view name) const;
  uint64_t whole(std::string_view name) const;
  double number(std::string_view name) const;

  /// @pre The value is one that the parameter's range has read.
  void set(std::string name, std::string value);

  /// In the order of their names.
  auto begin() const { return values_.begin(); }
  auto end() const { return values_.end(); }

  bool operator==(const arguments&) const = default;

private:
  std::map<std::string, std::string, std::less<>> values_;
};

/// The schema of that name. Throws `bad_value`, which begins with the name and
/// lists those that there are. @param noun What they are: "distribution".
const call_schema& schema_of(std::string_view name,
                             std::span<const call_schema> known,
                             std::string_view noun);

/// What a text like `name`, `name()` or `name(key=value,...)` gives to the
/// parameters of `of`, without the defaults of others. Throws `bad_value`.
arguments read_given(const call_schema& of, std::string_view text);

/// Adds the defaults of what is not given. Throws `bad_value` for a parameter
/// that has none and is not optional.
arguments with_defaults(const call_schema& of, arguments given);

/// Both in one.
arguments read_arguments(const call_schema& of, std::string_view text);

/// As it is written: "ssp(staleness=3)"; the name alone without values.
std::string to_string(const call_schema& of, const arguments& values);

} // namespace troupe::config
