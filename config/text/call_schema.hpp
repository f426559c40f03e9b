#pragma once
// The grammar of values that are written like a call, such as
// `ssp(staleness=3)`. A schema says which names, parameters and values there
// are. Policies, distributions, schedules, augmentation, compression, data sets
// and faults are all read with it, so that they share spelling, errors and
// help.
//
// Plain values; any thread.

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

/// Limits that stand for "no limit".
inline constexpr double largest_number = std::numeric_limits<double>::max();
inline constexpr uint64_t largest_rank = 1'000'000'000;

/// Which values a parameter may have.
struct value_range {
  enum class kind : uint8_t { whole, number, word, text, path };

  kind what = kind::text;
  double least = 0;
  double most = largest_number;
  bool above_least = false;       ///< `least` itself is not allowed.
  std::vector<std::string> words; ///< For `word`: those allowed.

  /// Checks a value and returns it in the form that is stored and shown. Throws
  /// `bad_value`.
  std::string read(std::string_view text) const;
};

/// A whole number from `least` to `most`.
value_range whole(uint64_t least, uint64_t most);
/// A number from `least` to `most`.
value_range number_from(double least, double most);
value_range number_above(double least);
/// Above `least`, up to and including `most`.
value_range number_above(double least, double most);
value_range one_of_words(std::vector<std::string> words);
value_range any_text();
/// A file or folder; `~` is the home folder (home.hpp).
value_range file_path();

struct parameter {
  std::string name;        ///< "staleness"
  std::string placeholder; ///< The value's placeholder in the help: "S".
  std::string help;        ///< Meaning and unit.
  value_range range;
  /// The default. If empty, the parameter must be given unless it is optional.
  std::string by_default{};
  bool optional = false;
};

/// The parameters that one name may have.
struct call_schema {
  std::string name;
  std::vector<parameter> parameters;
  /// The first parameter may be given by its value alone: `constant(1)`.
  bool bare_first = false;

  /// Null when there is none.
  const parameter* find(std::string_view name) const;
};

/// The values of a call's parameters by name: those that were given, and
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

/// The schema of that name. Throws `bad_value`, whose text begins with the name
/// and lists the known ones. @param noun What they are: "distribution".
const call_schema& schema_of(std::string_view name,
                             std::span<const call_schema> known,
                             std::string_view noun);

/// Reads the parameters that a text like `name`, `name()` or
/// `name(key=value,...)` gives, without defaults. Throws `bad_value`.
arguments read_given(const call_schema& of, std::string_view text);

/// Adds defaults for the parameters not given. Throws `bad_value` for a
/// parameter that has no default and is not optional.
arguments with_defaults(const call_schema& of, arguments given);

/// `read_given` and `with_defaults` together.
arguments read_arguments(const call_schema& of, std::string_view text);

/// As a user writes it: "ssp(staleness=3)", or the name alone without values.
std::string to_string(const call_schema& of, const arguments& values);

} // namespace troupe::config
