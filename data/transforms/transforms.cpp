#include "data/transforms/transforms.hpp"

#include "data/sampling/philox.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace troupe::data {

namespace {

/// The shorter side is scaled to 8/7 of the wanted one; then the middle is
/// taken.
constexpr int64_t margin_numerator = 8;
constexpr int64_t margin_denominator = 7;

int64_t rounded(double x) {
  return static_cast<int64_t>(std::nearbyint(x)); // Halves to even, as Python.
}

/// A whole number in [0, most].
int64_t place(philox_stream& random, int64_t most) {
  return random.below(static_cast<uint32_t>(most) + 1);
}

window draw_crop(philox_stream& random, const config::random_crop& how,
                 int64_t height, int64_t width) {
  int64_t padding = how.padding;
  auto top = place(random, 2 * padding) - padding;
  auto left = place(random, 2 * padding) - padding;
  return {top, left, height, width};
}

/// The window if no drawn one fits: the middle, in the nearest allowed ratio.
window fitting(const config::random_resized_crop& how, int64_t height,
               int64_t width) {
  auto ratio = static_cast<double>(width) / static_cast<double>(height);
  window out{0, 0, height, width};
  if (ratio < how.min_ratio)
    out.height = rounded(static_cast<double>(width) / how.min_ratio);
  else if (ratio > how.max_ratio)
    out.width = rounded(static_cast<double>(height) * how.max_ratio);
  out.height = std::clamp<int64_t>(out.height, 1, height);
  out.width = std::clamp<int64_t>(out.width, 1, width);
  out.top = (height - out.height) / 2;
  out.left = (width - out.width) / 2;
  return out;
}

window draw_resized_crop(philox_stream& random,
                         const config::random_resized_crop& how, int64_t height,
                         int64_t width) {
  auto area = static_cast<double>(height) * static_cast<double>(width);
  for (int attempt = 0; attempt < 10; ++attempt) {
    auto wanted = area * random.uniform(how.min_scale, how.max_scale);
    auto ratio = std::exp(
      random.uniform(std::log(how.min_ratio), std::log(how.max_ratio)));
    auto w = rounded(std::sqrt(wanted * ratio));
    auto h = rounded(std::sqrt(wanted / ratio));
    if (w > 0 && w <= width && h > 0 && h <= height) {
      auto top = place(random, height - h);
      auto left = place(random, width - w);
      return {top, left, h, w};
    }
  }
  return fitting(how, height, width);
}

std::optional<double> draw_factor(philox_stream& random, double strength) {
  if (strength == 0)
    return std::nullopt;
  return random.uniform(std::max(0.0, 1 - strength), 1 + strength);
}

void draw_jitter(philox_stream& random, const config::colour_jitter& how,
                 draws& out) {
  for (uint32_t left = 4; left > 1; --left)
    std::swap(out.order[left - 1], out.order[random.below(left)]);
  out.brightness = draw_factor(random, how.brightness);
  out.contrast = draw_factor(random, how.contrast);
  out.saturation = draw_factor(random, how.saturation);
  if (how.hue > 0)
    out.hue = random.uniform(-how.hue, how.hue);
}

/// The image, scaled to a square of this side.
picture sized(const picture& image, int64_t side) {
  return resize(image, side, side, {0, 0, side, side});
}

transformed evaluated(int64_t side, const sample_loader& load) {
  auto image = load([](int64_t height, int64_t width) {
    return window{0, 0, height, width};
  });
  auto shorter = side * margin_numerator / margin_denominator;
  auto whole = resized_to_shorter(image.height, image.width, shorter);
  auto part = middle(whole.height, whole.width, side);
  transformed out{resize(image, whole.height, whole.width, part), {}, false};
  out.crop = out.image.whole();
  return out;
}

} // namespace

window resized_to_shorter(int64_t height, int64_t width, int64_t side) {
  auto longer = [&](int64_t l, int64_t s) {
    return static_cast<int64_t>(static_cast<double>(side * l) /
                                static_cast<double>(s));
  };
  if (width <= height)
    return {0, 0, longer(height, width), side};
  return {0, 0, side, longer(width, height)};
}

window middle(int64_t height, int64_t width, int64_t side) {
  return {rounded(static_cast<double>(height - side) / 2),
          rounded(static_cast<double>(width - side) / 2), side, side};
}

draws draw(const transforms& how, int64_t height, int64_t width, uint64_t epoch,
           uint64_t index) {
  philox_stream random{how.seed, random_purpose::augmentation,
                       epoch << 32 | index};
  draws out;
  out.crop = {0, 0, height, width};
  if (how.random.crop)
    out.crop = draw_crop(random, *how.random.crop, height, width);
  if (how.random.resized_crop)
    out.crop =
      draw_resized_crop(random, *how.random.resized_crop, height, width);
  if (how.random.flip)
    out.flip = random.uniform(0, 1) < how.random.flip->p;
  if (how.random.jitter)
    draw_jitter(random, *how.random.jitter, out);
  return out;
}

picture cut(const picture& from, const window& part) {
  auto out = make_picture(part.height, part.width, from.channels);
  auto* to = out.owned.data();
  for (int64_t y = part.top; y < part.top + part.height; ++y)
    for (int64_t x = part.left; x < part.left + part.width; ++x)
      for (int64_t c = 0; c < from.channels; ++c, ++to)
        if (y >= 0 && y < from.height && x >= 0 && x < from.width)
          *to = *from.at(y, x, c);
  return out;
}

transformed transform(const transforms& how, uint64_t epoch, uint64_t index,
                      const sample_loader& load) {
  draws drawn;
  transformed out;
  if (how.random.resized_crop) {
    auto image = load([&](int64_t height, int64_t width) {
      drawn = draw(how, height, width, epoch, index);
      return drawn.crop;
    });
    auto side = how.side;
    out.image = side == 0 ? std::move(image) : sized(image, side);
    out.crop = out.image.whole();
  } else if (how.side != 0) {
    out = evaluated(how.side, load);
    drawn = draw(how, how.side, how.side, epoch, index);
    out.crop = drawn.crop;
  } else {
    out.image = load([&](int64_t height, int64_t width) {
      drawn = draw(how, height, width, epoch, index);
      return window{0, 0, height, width};
    });
    out.crop = drawn.crop;
  }
  if (how.random.jitter) {
    out.image = cut(out.image, out.crop);
    out.crop = out.image.whole();
    jitter(out.image, drawn);
  }
  out.flip = drawn.flip;
  return out;
}

} // namespace troupe::data
