#include "config/values/augmentation.hpp"

#include "config/text/call_schema.hpp"
#include "config/text/text.hpp"
#include "config/text/value.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>

namespace troupe::config {

namespace {

template <class T>
std::string text_of(const T& value) {
  return print(static_cast<double>(value));
}

/// How much a colour changes at most.
parameter strength(const char* name, double most) {
  return {name, "X", "how much it changes at most", number_from(0, most), "0"};
}

/// A side or a share of the window.
parameter positive(const char* name, double by_default) {
  return {name, "X", "of the window", number_above(0), text_of(by_default)};
}

enum step : uint8_t { crop, resized_crop, flip, jitter };

/// In the order of `step`.
const std::array<call_schema, 4> augmentation_schemas{{
  {"crop",
   {{"padding", "N", "pixels on each side", whole(0, 1024),
     text_of(random_crop{}.padding)}}},
  {"resized-crop",
   {positive("min-scale", random_resized_crop{}.min_scale),
    {"max-scale", "X", "of the image", number_from(0, 1),
     text_of(random_resized_crop{}.max_scale)},
    positive("min-ratio", random_resized_crop{}.min_ratio),
    positive("max-ratio", random_resized_crop{}.max_ratio)}},
  {"flip",
   {{"p", "X", "how often", number_from(0, 1), text_of(random_flip{}.p)}}},
  {"jitter",
   {strength("brightness", 100), strength("contrast", 100),
    strength("saturation", 100), strength("hue", 0.5)}},
}};

template <class T>
void put(std::optional<T>& slot, const call_schema& schema, T value) {
  if (slot)
    throw bad_value("has " + schema.name + " twice");
  slot = value;
}

random_resized_crop read_resized_crop(const arguments& from) {
  random_resized_crop out{from.number("min-scale"), from.number("max-scale"),
                          from.number("min-ratio"), from.number("max-ratio")};
  if (out.min_scale > out.max_scale || out.min_ratio > out.max_ratio)
    throw bad_value("has a resized-crop whose least is above its most");
  return out;
}

void take_step(augmentation& out, std::string_view text) {
  auto name = name_of_call(text);
  auto found =
    std::ranges::find(augmentation_schemas, name, &call_schema::name);
  if (found == augmentation_schemas.end())
    throw bad_value("has the step " + in_quotes(name) +
                    "; there are auto, none, or crop, resized-crop, flip and "
                    "jitter with + between them");
  auto from = read_arguments(*found, text);
  switch (static_cast<step>(found - augmentation_schemas.begin())) {
  case crop:
    return put(out.crop, *found,
               {static_cast<uint32_t>(from.whole("padding"))});
  case resized_crop:
    return put(out.resized_crop, *found, read_resized_crop(from));
  case flip:
    return put(out.flip, *found, {from.number("p")});
  case jitter:
    return put(out.jitter, *found,
               {from.number("brightness"), from.number("contrast"),
                from.number("saturation"), from.number("hue")});
  }
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
