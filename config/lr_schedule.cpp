#include "config/lr_schedule.hpp"

#include "config/call.hpp"
#include "config/text.hpp"
#include "config/value.hpp"

#include <array>
#include <set>
#include <string>
#include <utility>

namespace troupe::config {

namespace {

const std::array<std::string, 4> names{"constant", "step", "multi-step",
                                       "cosine"};

lr_shape shape_of(std::string_view name) {
  for (size_t i = 0; i < names.size(); ++i)
    if (names[i] == name)
      return static_cast<lr_shape>(i);
  throw bad_value(in_quotes(name) + " is no schedule; known: " +
                  join(names, ", ") + did_you_mean(name, names));
}

/// "30+60+80"
std::vector<double> parse_epochs(std::string_view text) {
  std::vector<double> out;
  for (auto rest = text;;) {
    auto end = rest.find('+');
    auto epoch =
      parse_number(trim(rest.substr(0, end)), positive, "at", "multi-step");
    if (!out.empty() && epoch <= out.back())
      throw bad_value("at of multi-step must be epochs that rise, such as "
                      "30+60+80");
    out.push_back(epoch);
    if (end == std::string_view::npos)
      return out;
    rest.remove_prefix(end + 1);
  }
}

/// Whether the shape has such a parameter, which is then taken.
bool take(lr_schedule& out, std::string_view name, std::string_view value,
          std::string_view owner) {
  auto steps = out.shape == lr_shape::step || out.shape == lr_shape::multi_step;
  if (name == "every" && out.shape == lr_shape::step)
    out.every = parse_number(value, positive, name, owner);
  else if (name == "at" && out.shape == lr_shape::multi_step)
    out.at = parse_epochs(value);
  else if (name == "factor" && steps)
    out.factor = parse_number(value, positive, name, owner);
  else if (name == "min" && out.shape == lr_shape::cosine)
    out.min = parse_number(value, not_negative, name, owner);
  else
    return false;
  return true;
}

void take_all(lr_schedule& out, std::string_view text) {
  auto written = parse_call(text);
  std::set<std::string_view> given;
  if (written.empty())
    return;
  for (const auto& [name, value] : written.arguments) {
    if (!take(out, name, value, written.name))
      throw bad_value(std::string{written.name} + " has no parameter " +
                      in_quotes(name.empty() ? value : name));
    if (!given.insert(name).second)
      throw bad_value(std::string{name} + " of " + std::string{written.name} +
                      " is given twice");
  }
}

} // namespace

lr_schedule parse_lr_schedule(std::string_view text) {
  lr_schedule out;
  out.shape = shape_of(name_of_call(text));
  if (text.find('(') != std::string_view::npos)
    take_all(out, text);
  if (out.shape == lr_shape::multi_step && out.at.empty())
    throw bad_value("multi-step needs at, the epochs of its steps, such as "
                    "multi-step(at=30+60+80)");
  return out;
}

} // namespace troupe::config
