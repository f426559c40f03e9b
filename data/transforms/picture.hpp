#pragma once
// Images as bytes, between their store and a batch. Plain values; a view does
// not own its pixels.

#include <cstdint>
#include <functional>
#include <vector>

namespace troupe::data {

/// Part of an image, in pixels. It may extend beyond the image: pixels outside
/// are black.
struct window {
  int64_t top = 0;
  int64_t left = 0;
  int64_t height = 0;
  int64_t width = 0;

  bool operator==(const window&) const = default;
};

/// A view of pixels, which it may own. Channels are planar or interleaved, as
/// the strides tell.
struct picture {
  const uint8_t* origin = nullptr; ///< Of the upper left pixel.
  int64_t channels = 0;
  int64_t height = 0;
  int64_t width = 0;
  int64_t plane = 0;  ///< Bytes from a channel to the next.
  int64_t row = 0;    ///< Bytes from a row to the next.
  int64_t column = 0; ///< Bytes from a pixel to the next.
  std::vector<uint8_t> owned = {};

  const uint8_t* at(int64_t y, int64_t x, int64_t channel) const {
    return origin + channel * plane + y * row + x * column;
  }

  window whole() const { return {0, 0, height, width}; }
};

/// A black picture that owns its memory, with interleaved channels.
inline picture make_picture(int64_t height, int64_t width, int64_t channels) {
  picture out{nullptr, channels, height, width, 1, width * channels, channels};
  out.owned.resize(static_cast<size_t>(height * width * channels));
  out.origin = out.owned.data();
  return out;
}

/// Chooses the wanted part of an image of this size; it must lie inside.
using window_choice = std::function<window(int64_t height, int64_t width)>;

} // namespace troupe::data
