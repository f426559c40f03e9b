#pragma once
// What is done to a sample on its way into a batch, as torchvision's transforms
// of the same names do it on PIL images. What is random is a function of
// (seed, epoch, index of the sample): neither the number of workers nor who
// gets which sample changes it.

#include "config/values/augmentation.hpp"
#include "data/transforms/picture.hpp"

#include <array>
#include <cstdint>
#include <functional>
#include <optional>

namespace troupe::data {

/// What is to be done.
struct transforms {
  config::augmentation random; ///< Steps; `automatic` means nothing here.
  /// Side of the squares that images of any size are made into; 0: samples
  /// have their size already. Without a random resized crop the shorter side
  /// becomes 8/7 of it, of which the middle is taken (256 for 224).
  int64_t side = 0;
  uint64_t seed = 0;
};

/// What was drawn for one sample.
struct draws {
  window crop; ///< Part of the image; may leave it with padding.
  bool flip = false;
  /// Of the steps of colour_jitter that there are, and the order in which the
  /// four are done.
  std::optional<double> brightness = {};
  std::optional<double> contrast = {};
  std::optional<double> saturation = {};
  std::optional<double> hue = {};
  std::array<uint8_t, 4> order{0, 1, 2, 3};
};

/// Draws for a sample of height x width pixels.
draws draw(const transforms& how, int64_t height, int64_t width, uint64_t epoch,
           uint64_t index);

/// A sample that only has to be cut out, turned and normalised.
struct transformed {
  picture image;
  window crop; ///< Of `image`; what leaves it is black.
  bool flip = false;
};

/// Gives the part of a sample that it is asked for.
using sample_loader = std::function<picture(const window_choice&)>;

/// Does all but what is left to say in the answer.
transformed transform(const transforms& how, uint64_t epoch, uint64_t index,
                      const sample_loader& load);

// -- the steps, for tests too -------------------------------------------------

/// Bilinear with antialiasing, as PIL's: `from` is made
/// `height` x `width`, of which only `part` is computed.
picture resize(const picture& from, int64_t height, int64_t width,
               const window& part);

/// Changes colours in the drawn order, byte for byte as torchvision does on
/// PIL images. Of grey images saturation and hue stay.
/// @pre `image` owns its pixels, channels side by side.
void jitter(picture& image, const draws& what);

/// A copy, with black where `part` leaves the image.
picture cut(const picture& from, const window& part);

/// Size of an image whose shorter side becomes `side`: height, width.
window resized_to_shorter(int64_t height, int64_t width, int64_t side);

/// The middle of an image, rounded as torchvision rounds.
window middle(int64_t height, int64_t width, int64_t side);

} // namespace troupe::data
