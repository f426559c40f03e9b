#pragma once
// `--augment crop(padding=4)+flip`: the random changes to training samples.
// Here the declaration is only read; data/transforms applies it. The words and
// parameters are those of torchvision's transforms. Plain values.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace troupe::config {

/// A random window of the image's own size, after black padding was added.
struct random_crop {
  uint32_t padding = 4; ///< pixels on each side
};

/// A horizontal flip with probability `p`.
struct random_flip {
  double p = 0.5;
};

/// A window of random area and aspect ratio, scaled to the size that the
/// network takes.
struct random_resized_crop {
  double min_scale = 0.08; ///< Share of the image's area.
  double max_scale = 1;
  double min_ratio = 3.0 / 4; ///< Width by height.
  double max_ratio = 4.0 / 3;
};

/// Factors of brightness, contrast and saturation are drawn from [max(0, 1 -
/// x), 1 + x]; the shift of the hue is drawn from [-hue, hue], as a fraction of
/// the colour circle.
struct colour_jitter {
  double brightness = 0;
  double contrast = 0;
  double saturation = 0;
  double hue = 0; ///< At most 0.5.
};

/// The steps, in the order in which they are applied.
struct augmentation {
  bool automatic = false; ///< The data set's usual steps; all others are unset.
  std::optional<random_crop> crop;
  std::optional<random_resized_crop> resized_crop;
  std::optional<random_flip> flip;
  std::optional<colour_jitter> jitter;
};

/// Reads `auto`, `none` or steps joined by `+`, each a name or
/// `name(parameter=value,...)`. Throws `bad_value`, which says what is wrong.
augmentation parse_augmentation(std::string_view text);

} // namespace troupe::config
