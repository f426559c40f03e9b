#include "config/values/lr_schedule.hpp"

#include "config/text/call_schema.hpp"
#include "config/text/text.hpp"
#include "config/text/value.hpp"

#include <array>
#include <string>

namespace troupe::config {

namespace {

const parameter decay_factor{"factor", "X", "of the rate at each step",
                             number_above(0), print(lr_schedule{}.factor)};

/// In the order of `lr_shape`.
const std::array<call_schema, 4> lr_schemas{{
  {"constant", {}},
  {"step",
   {{"every", "E", "epochs between steps", number_above(0),
     print(lr_schedule{}.every)},
    decay_factor}},
  {"multi-step",
   {{"at", "E+E...", "the epochs of its steps, such as 30+60+80", any_text()},
    decay_factor}},
  {"cosine",
   {{"min", "X", "the rate that it ends with", number_from(0, largest_number),
     print(lr_schedule{}.min)}}},
}};

/// "30+60+80"
std::vector<double> parse_epochs(std::string_view text) {
  std::vector<double> out;
  for (auto rest = text;;) {
    auto end = rest.find('+');
    auto epoch = parse<double>(trim(rest.substr(0, end)));
    if (epoch <= (out.empty() ? 0 : out.back()))
      throw bad_value("at of multi-step must be epochs that rise, such as "
                      "30+60+80");
    out.push_back(epoch);
    if (end == std::string_view::npos)
      return out;
    rest.remove_prefix(end + 1);
  }
}

} // namespace

lr_schedule parse_lr_schedule(std::string_view text) {
  const auto& what = schema_of(name_of_call(text), lr_schemas, "schedule");
  auto values = read_arguments(what, text);
  lr_schedule out;
  out.shape = static_cast<lr_shape>(&what - lr_schemas.data());
  if (values.has("every"))
    out.every = values.number("every");
  if (values.has("at"))
    out.at = parse_epochs(values.text("at"));
  if (values.has("factor"))
    out.factor = values.number("factor");
  if (values.has("min"))
    out.min = values.number("min");
  return out;
}

} // namespace troupe::config
