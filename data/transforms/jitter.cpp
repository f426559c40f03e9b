// Changes of colours, byte for byte as torchvision's on PIL images.

#include "data/transforms/transforms.hpp"

#include <algorithm>
#include <cmath>

namespace troupe::data {

namespace {

uint8_t blend(int from, int to, float share) {
  auto value = static_cast<float>(from) + share * static_cast<float>(to - from);
  return static_cast<uint8_t>(std::clamp(value, 0.0f, 255.0f));
}

uint8_t gray(const uint8_t* rgb) {
  return static_cast<uint8_t>(
    (rgb[0] * 19595 + rgb[1] * 38470 + rgb[2] * 7471 + 0x8000) >> 16);
}

void brighten(picture& image, double factor) {
  for (auto& x : image.owned)
    x = blend(0, x, static_cast<float>(factor));
}

/// The mean of the image in gray.
int mean_of(const picture& image) {
  uint64_t sum = 0;
  const auto& bytes = image.owned;
  for (size_t i = 0; i < bytes.size(); i += static_cast<size_t>(image.channels))
    sum += image.channels == 3 ? gray(&bytes[i]) : bytes[i];
  return static_cast<int>(static_cast<double>(sum) /
                            static_cast<double>(image.height * image.width) +
                          0.5);
}

void contrast(picture& image, double factor) {
  auto mean = mean_of(image);
  for (auto& x : image.owned)
    x = blend(mean, x, static_cast<float>(factor));
}

void saturate(picture& image, double factor) {
  if (image.channels != 3)
    return;
  auto& bytes = image.owned;
  for (size_t i = 0; i < bytes.size(); i += 3) {
    auto without = gray(&bytes[i]);
    for (size_t c = i; c < i + 3; ++c)
      bytes[c] = blend(without, bytes[c], static_cast<float>(factor));
  }
}

struct hsv {
  uint8_t h = 0;
  uint8_t s = 0;
  uint8_t v = 0;
};

hsv to_hsv(const uint8_t* rgb) {
  auto [r, g, b] = std::array{rgb[0], rgb[1], rgb[2]};
  auto most = std::max({r, g, b});
  auto least = std::min({r, g, b});
  if (most == least)
    return {0, 0, most};
  auto range = static_cast<float>(most - least);
  auto s = range / static_cast<float>(most);
  auto rc = static_cast<float>(most - r) / range;
  auto gc = static_cast<float>(most - g) / range;
  auto bc = static_cast<float>(most - b) / range;
  float h = 0;
  if (r == most)
    h = bc - gc;
  else if (g == most)
    h = static_cast<float>(2.0 + rc - bc);
  else
    h = static_cast<float>(4.0 + gc - rc);
  h = static_cast<float>(std::fmod(h / 6.0 + 1.0, 1.0));
  return {static_cast<uint8_t>(std::clamp(static_cast<int>(h * 255.0), 0, 255)),
          static_cast<uint8_t>(std::clamp(static_cast<int>(s * 255.0), 0, 255)),
          most};
}

void from_hsv(const hsv& x, uint8_t* rgb) {
  if (x.s == 0) {
    rgb[0] = rgb[1] = rgb[2] = x.v;
    return;
  }
  auto sector =
    static_cast<int>(std::floor(static_cast<float>(x.h) * 6.0 / 255.0));
  auto f = static_cast<float>(static_cast<float>(x.h) * 6.0 / 255.0 -
                              static_cast<float>(sector));
  auto s = static_cast<float>(static_cast<float>(x.s) / 255.0);
  auto byte = [&](double value) {
    return static_cast<uint8_t>(
      std::clamp(static_cast<int>(std::round(value)), 0, 255));
  };
  auto v = static_cast<float>(x.v);
  auto p = byte(v * (1.0 - s));
  auto q = byte(v * (1.0 - s * f));
  auto t = byte(v * (1.0 - s * (1.0 - f)));
  const uint8_t all[6][3] = {{x.v, t, p}, {q, x.v, p}, {p, x.v, t},
                             {p, q, x.v}, {t, p, x.v}, {x.v, p, q}};
  std::copy_n(all[sector % 6], 3, rgb);
}

void turn_hue(picture& image, double by) {
  if (image.channels != 3)
    return;
  auto shift = static_cast<uint8_t>(static_cast<int>(by * 255));
  auto& bytes = image.owned;
  for (size_t i = 0; i < bytes.size(); i += 3) {
    auto x = to_hsv(&bytes[i]);
    x.h = static_cast<uint8_t>(x.h + shift);
    from_hsv(x, &bytes[i]);
  }
}

} // namespace

void jitter(picture& image, const draws& numbers) {
  for (auto step : numbers.order) {
    if (step == 0 && numbers.brightness)
      brighten(image, *numbers.brightness);
    if (step == 1 && numbers.contrast)
      contrast(image, *numbers.contrast);
    if (step == 2 && numbers.saturation)
      saturate(image, *numbers.saturation);
    if (step == 3 && numbers.hue)
      turn_hue(image, *numbers.hue);
  }
}

} // namespace troupe::data
