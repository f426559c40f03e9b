#pragma once
// `--augment crop(padding=4)+flip`: what is changed at random in the samples
// that a network learns from. Here is what a declaration says; doing it is
// data's part. The words and parameters are torchvision's transforms.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace troupe::config {

/// A window of the image's own size, after a black margin was put around it.
struct random_crop {
  uint32_t padding = 4; ///< pixels on each side
};

/// Left becomes right.
struct random_flip {
  double p = 0.5;
};

/// A window of random area and aspect ratio, made as large as the network
/// wants.
struct random_resized_crop {
  double min_scale = 0.08; ///< Share of the image's area.
  double max_scale = 1;
  double min_ratio = 3.0 / 4; ///< Width by height.
  double max_ratio = 4.0 / 3;
};

/// Factors of brightness, contrast and saturation are drawn from
/// [max(0, 1 - x), 1 + x], the shift of the hue from [-hue, hue], a part of
/// the colour circle.
struct colour_jitter {
  double brightness = 0;
  double contrast = 0;
  double saturation = 0;
  double hue = 0; ///< At most 0.5.
};

/// In the order in which they are done.
struct augmentation {
  bool automatic = false; ///< What is usual for the data set; no other is set.
  std::optional<random_crop> crop;
  std::optional<random_resized_crop> resized_crop;
  std::optional<random_flip> flip;
  std::optional<colour_jitter> jitter;
};

/// Reads `auto`, `none` or steps with `+` between them, each a name or
/// `name(parameter=value,...)`. Throws `bad_value` that says what is wrong.
augmentation parse_augmentation(std::string_view text);

} // namespace troupe::config
