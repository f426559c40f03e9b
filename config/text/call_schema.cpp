#include "config/text/call_schema.hpp"

#include "config/text/home.hpp"
#include "config/text/text.hpp"
#include "config/text/value.hpp"

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace troupe::config {

namespace {

/// "must be above 0 and at most 1"
std::string rule_of(const value_range& range) {
  auto least = print(range.least);
  auto most = print(range.most);
  if (range.above_least)
    return "must be above " + least +
           (range.most < largest_number ? " and at most " + most : "");
  if (range.most < largest_number)
    return "must be from " + least + " to " + most;
  return range.least == 0 ? "must not be negative"
                          : "must be at least " + least;
}

std::string read_whole(const value_range& range, std::string_view text) {
  constexpr auto largest = std::numeric_limits<uint64_t>::max();
  auto value = parse_unsigned(text, range.most < static_cast<double>(largest)
                                      ? static_cast<uint64_t>(range.most)
                                      : largest);
  if (static_cast<double>(value) < range.least)
    throw bad_value("must be at least " + print(range.least));
  return std::to_string(value);
}

std::string read_number(const value_range& range, std::string_view text) {
  auto value = parse_double(text);
  if (value < range.least || value > range.most ||
      (range.above_least && value == range.least))
    throw bad_value(rule_of(range));
  return print(value);
}

/// The parameter that an argument is for.
const parameter& find(const call_schema& of, const call::argument& given,
                      bool alone) {
  if (given.name.empty() && of.bare_first && alone)
    return of.parameters.front();
  if (given.name.empty() && !of.parameters.empty())
    throw bad_value(in_quotes(given.value) + " must be NAME=VALUE");
  if (const auto* found = of.find(given.name))
    return *found;
  std::vector<std::string> names;
  for (const auto& each : of.parameters)
    names.push_back(each.name);
  throw bad_value(of.name + " has no parameter " +
                  in_quotes(given.name.empty() ? given.value : given.name) +
                  (names.empty() ? ""
                                 : ", it has " + join(names, ", ") +
                                     did_you_mean(given.name, names)));
}

} // namespace

std::string value_range::read(std::string_view text) const {
  if (text.empty())
    throw bad_value("needs a value");
  switch (what) {
  case kind::whole:
    return read_whole(*this, text);
  case kind::number:
    return read_number(*this, text);
  case kind::word:
    if (auto word = spelt(text, words))
      return *word;
    throw bad_value(not_among(text, words));
  case kind::path:
    return expand_home(text);
  case kind::text:
    break;
  }
  return std::string{text};
}

value_range whole(uint64_t least, uint64_t most) {
  return {value_range::kind::whole,
          static_cast<double>(least),
          static_cast<double>(most),
          false,
          {}};
}

value_range number_from(double least, double most) {
  return {value_range::kind::number, least, most, false, {}};
}

value_range number_above(double least) {
  return number_above(least, largest_number);
}

value_range number_above(double least, double most) {
  return {value_range::kind::number, least, most, true, {}};
}

value_range one_of_words(std::vector<std::string> words) {
  return {value_range::kind::word, 0, 0, false, std::move(words)};
}

value_range any_text() {
  return {};
}

value_range file_path() {
  return {value_range::kind::path, 0, 0, false, {}};
}

const parameter* call_schema::find(std::string_view name) const {
  for (const auto& each : parameters)
    if (each.name == name)
      return &each;
  return nullptr;
}

const std::string& arguments::text(std::string_view name) const {
  auto found = values_.find(name);
  if (found == values_.end())
    throw std::out_of_range("no parameter '" + std::string{name} + "'");
  return found->second;
}

uint64_t arguments::whole(std::string_view name) const {
  return parse_unsigned(text(name), std::numeric_limits<uint64_t>::max());
}

double arguments::number(std::string_view name) const {
  return parse_double(text(name));
}

void arguments::set(std::string name, std::string value) {
  values_.insert_or_assign(std::move(name), std::move(value));
}

const call_schema& schema_of(std::string_view name,
                             std::span<const call_schema> known,
                             std::string_view noun) {
  std::vector<std::string> names;
  for (const auto& each : known) {
    if (each.name == name)
      return each;
    names.push_back(each.name);
  }
  throw bad_value(in_quotes(name) + " is no " + std::string{noun} +
                  "; known: " + join(names, ", ") + did_you_mean(name, names));
}

arguments read_given(const call_schema& of, std::string_view text) {
  arguments out;
  if (text.find('(') == std::string_view::npos)
    return out;
  auto written = parse_call(text);
  if (written.empty())
    return out;
  for (const auto& given : written.arguments) {
    const auto& what = find(of, given, written.arguments.size() == 1);
    if (out.has(what.name))
      throw bad_value(what.name + " of " + of.name + " is given twice");
    try {
      out.set(what.name, what.range.read(given.value));
    } catch (const bad_value& why) {
      throw bad_value(what.name + " of " + of.name + " " + why.what());
    }
  }
  return out;
}

arguments with_defaults(const call_schema& of, arguments given) {
  for (const auto& each : of.parameters) {
    if (given.has(each.name) || each.optional)
      continue;
    if (each.by_default.empty())
      throw bad_value(of.name + " needs " + each.name + ", " + each.help);
    given.set(each.name, each.by_default);
  }
  return given;
}

arguments read_arguments(const call_schema& of, std::string_view text) {
  return with_defaults(of, read_given(of, text));
}

std::string to_string(const call_schema& of, const arguments& values) {
  std::string inner;
  for (const auto& each : of.parameters)
    if (values.has(each.name))
      inner +=
        (inner.empty() ? "" : ",") + each.name + "=" + values.text(each.name);
  return inner.empty() ? of.name : of.name + "(" + inner + ")";
}

} // namespace troupe::config
