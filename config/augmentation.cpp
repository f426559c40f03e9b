#include "config/augmentation.hpp"

#include "config/call.hpp"
#include "config/text.hpp"
#include "config/value.hpp"

#include <cmath>
#include <cstdint>
#include <initializer_list>

namespace troupe::config {

namespace {

constexpr number_rule share{"must be from 0 to 1", [](double x) {
                              return x >= 0 && x <= 1;
                            }};
constexpr number_rule strength{"must be from 0 to 100", [](double x) {
                                 return x >= 0 && x <= 100;
                               }};
constexpr number_rule half{"must be from 0 to 0.5", [](double x) {
                             return x >= 0 && x <= 0.5;
                           }};
constexpr number_rule margin{"must be a whole number from 0 to 1024",
                             [](double x) {
                               return x >= 0 && x <= 1024 && x == std::floor(x);
                             }};

struct parameter {
  std::string_view name;
  const number_rule* rule;
  double* value;
};

/// Reads the parameters of a step; what is not given keeps its value.
void take(std::string_view text, std::initializer_list<parameter> known) {
  if (text.find('(') == std::string_view::npos)
    return;
  auto written = parse_call(text);
  if (written.empty())
    return;
  for (const auto& given : written.arguments) {
    auto found = false;
    std::string names;
    for (const auto& each : known) {
      names += (names.empty() ? "" : ", ") + std::string{each.name};
      if (each.name != given.name)
        continue;
      *each.value =
        parse_number(given.value, *each.rule, each.name, written.name);
      found = true;
    }
    if (!found)
      throw bad_value(in_quotes(given.name.empty() ? given.value : given.name) +
                      " is no parameter of " + std::string{written.name} +
                      ", which has " + names);
  }
}

template <class T>
T& once(std::optional<T>& slot, std::string_view name) {
  if (slot)
    throw bad_value("has " + std::string{name} + " twice");
  return slot.emplace();
}

void take_crop(random_crop& to, std::string_view text) {
  double padding = to.padding;
  take(text, {{"padding", &margin, &padding}});
  to.padding = static_cast<uint32_t>(padding);
}

void take_resized_crop(random_resized_crop& to, std::string_view text) {
  take(text, {{"min-scale", &positive, &to.min_scale},
              {"max-scale", &share, &to.max_scale},
              {"min-ratio", &positive, &to.min_ratio},
              {"max-ratio", &positive, &to.max_ratio}});
  if (to.min_scale > to.max_scale || to.min_ratio > to.max_ratio)
    throw bad_value("has a resized-crop whose least is above its most");
}

void take_step(augmentation& out, std::string_view text) {
  auto name = name_of_call(text);
  if (name == "crop")
    take_crop(once(out.crop, name), text);
  else if (name == "resized-crop")
    take_resized_crop(once(out.resized_crop, name), text);
  else if (name == "flip")
    take(text, {{"p", &share, &once(out.flip, name).p}});
  else if (name == "jitter") {
    auto& to = once(out.jitter, name);
    take(text, {{"brightness", &strength, &to.brightness},
                {"contrast", &strength, &to.contrast},
                {"saturation", &strength, &to.saturation},
                {"hue", &half, &to.hue}});
  } else
    throw bad_value("has the step " + in_quotes(name) +
                    "; there are auto, none, or crop, resized-crop, flip and "
                    "jitter with + between them");
}

} // namespace

augmentation parse_augmentation(std::string_view text) {
  augmentation out;
  text = trim(text);
  if (text == "auto") {
    out.automatic = true;
    return out;
  }
  if (text == "none")
    return out;
  // A number may hold a plus, but only between parentheses.
  for (auto step : split_outside(text, '+'))
    take_step(out, trim(step));
  if (out.crop && out.resized_crop)
    throw bad_value("has both crop and resized-crop: give one");
  return out;
}

} // namespace troupe::config
