#pragma once
// The transforms of a sample on its way into a batch, as torchvision's
// transforms of the same names change PIL images. Random choices are a function
// of (seed, epoch, index of the sample): neither the number of workers nor the
// assignment of samples changes them. Pure functions; any thread.

#include "config/values/augmentation.hpp"
#include "data/transforms/picture.hpp"

#include <array>
#include <cstdint>
#include <functional>
#include <optional>

namespace troupe::data {

/// The transforms of a data set.
struct transforms {
  config::augmentation random; ///< Random steps; `automatic` is ignored.
  /// Side of the squares to which images of varying size are scaled; 0: samples
  /// already have their size. Without a random resized crop the shorter side is
  /// scaled to 8/7 of it, and the middle is cut out (256 for 224).
  int64_t side = 0;
  uint64_t seed = 0;
};

/// The random choices for one sample.
struct draws {
  window crop; ///< Part of the image; may leave it with padding.
  bool flip = false;
  /// The factors of the colour_jitter steps that are configured, and the order
  /// of the four steps.
  std::optional<double> brightness = {};
  std::optional<double> contrast = {};
  std::optional<double> saturation = {};
  std::optional<double> hue = {};
  std::array<uint8_t, 4> order{0, 1, 2, 3};
};

/// Draws for a sample of height x width pixels.
draws draw(const transforms& how, int64_t height, int64_t width, uint64_t epoch,
           uint64_t index);

/// A sample that must still be cropped, flipped and normalised.
struct transformed {
  picture image;
  window crop; ///< Of `image`; black outside of it.
  bool flip = false;
};

/// Loads the part of a sample that is asked for.
using sample_loader = std::function<picture(const window_choice&)>;

/// Applies all transforms except those that the result names.
transformed transform(const transforms& how, uint64_t epoch, uint64_t index,
                      const sample_loader& load);

// -- the steps, for tests too -------------------------------------------------

/// Bilinear scaling with antialiasing, as PIL's, to `height` x `width`, of
/// which only `part` is computed.
picture resize(const picture& from, int64_t height, int64_t width,
               const window& part);

/// Changes colours in the drawn order, with the same bytes as torchvision on
/// PIL images. Saturation and hue have no effect on gray images.
/// @pre `image` owns its pixels, with interleaved channels.
void jitter(picture& image, const draws& numbers);

/// A copy of `part`, black outside of the image.
picture cut(const picture& from, const window& part);

/// Size of an image whose shorter side becomes `side`: height, width.
window resized_to_shorter(int64_t height, int64_t width, int64_t side);

/// The middle of an image, rounded as torchvision rounds.
window middle(int64_t height, int64_t width, int64_t side);

} // namespace troupe::data
