#pragma once
// Values as text, and back: how numbers, switches and choices are written in
// files, flags and the environment. What `print` writes, `parse` reads back to
// the same value. Pure functions; any thread.

#include "config/text/settings.hpp"
#include "config/text/text.hpp"

#include <concepts>
#include <cstdint>
#include <limits>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace troupe::config {

/// An invalid value: `what()` is the reason alone ("must be at least 1"). The
/// caller, who knows where the value was given, makes a `usage_error` of it.
class bad_value : public std::invalid_argument {
public:
  using std::invalid_argument::invalid_argument;
};

uint64_t parse_unsigned(std::string_view text, uint64_t largest);
double parse_double(std::string_view text);
bool parse_bool(std::string_view text);
std::string print(double value);
std::string print(bool value);
evaluation_frequency parse_frequency(std::string_view text);
std::string print(const evaluation_frequency& value);

/// Reads a number, `auto` or `auto(max=N)`.
local_steps_rule parse_local_steps(std::string_view text);
std::string print(const local_steps_rule& value);

/// The words of an enum, in the order in which users see them.
template <class Enum>
using choices = std::span<const std::pair<Enum, std::string_view>>;

choices<clock_kind> words(clock_kind);
choices<scalar_type> words(scalar_type);
choices<buffers_rule> words(buffers_rule);
choices<bad_sample_rule> words(bad_sample_rule);
choices<sharding_kind> words(sharding_kind);
choices<decay_exclusion> words(decay_exclusion);
choices<autocast_kind> words(autocast_kind);
choices<overlap_rule> words(overlap_rule);
choices<topology_kind> words(topology_kind);
choices<log_form> words(log_form);
choices<best_rule> words(best_rule);
choices<parallel_mode> words(parallel_mode);
choices<pipeline_order> words(pipeline_order);
choices<compute_kind> words(compute_kind);
choices<role> words(role); ///< Those that `--role` takes.

/// Other common names for these values. They are understood but never printed,
/// so that a setting has one spelling wherever it is stored, sent or compared.
template <class Enum>
choices<Enum> other_words(Enum) {
  return {};
}

choices<scalar_type> other_words(scalar_type);
choices<autocast_kind> other_words(autocast_kind);
choices<best_rule> other_words(best_rule); ///< Those of a switch.

template <class Enum>
requires std::is_enum_v<Enum> std::string print(Enum value) {
  for (const auto& [candidate, word] : words(value))
    if (candidate == value)
      return std::string{word};
  return "";
}

/// "average|first|local"
template <class Enum>
std::string alternatives() {
  std::string result;
  for (const auto& [value, word] : words(Enum{})) {
    if (!result.empty())
      result += '|';
    result += word;
  }
  return result;
}

template <class Enum>
std::vector<std::string> names_of(choices<Enum> all) {
  std::vector<std::string> result;
  for (const auto& [value, word] : all)
    result.emplace_back(word);
  return result;
}

/// The reason why `text` is none of `known`, with the closest of these.
std::string not_among(std::string_view text,
                      std::span<const std::string> known);

template <class Enum>
Enum parse_enum(std::string_view text) {
  for (auto all : {words(Enum{}), other_words(Enum{})})
    if (auto name = spelt(text, names_of(all)))
      for (const auto& [value, word] : all)
        if (word == *name)
          return value;
  throw bad_value(not_among(text, names_of(words(Enum{}))));
}

/// Reads a value of type `T`; throws `bad_value`.
template <class T>
T parse(std::string_view text) {
  if (text.empty() && !std::is_same_v<T, std::string>)
    throw bad_value("needs a value");
  if constexpr (std::is_enum_v<T>)
    return parse_enum<T>(text);
  else if constexpr (std::is_same_v<T, bool>)
    return parse_bool(text);
  else if constexpr (std::is_same_v<T, double>)
    return parse_double(text);
  else if constexpr (std::is_same_v<T, evaluation_frequency>)
    return parse_frequency(text);
  else if constexpr (std::is_same_v<T, local_steps_rule>)
    return parse_local_steps(text);
  else if constexpr (std::unsigned_integral<T>)
    return static_cast<T>(parse_unsigned(text, std::numeric_limits<T>::max()));
  else
    return T{text};
}

template <std::unsigned_integral T>
std::string print(T value) {
  return std::to_string(value);
}

inline std::string print(const std::string& value) {
  return value;
}

} // namespace troupe::config
