#pragma once
// Images as bytes, on their way from where they are kept to a batch.

#include <cstdint>
#include <functional>
#include <vector>

namespace troupe::data {

/// Part of an image, in pixels. May leave it: what is outside is black.
struct window {
  int64_t top = 0;
  int64_t left = 0;
  int64_t height = 0;
  int64_t width = 0;

  bool operator==(const window&) const = default;
};

/// A view of pixels, which may own them. Channels lie in planes or side by
/// side, as the strides say.
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

/// A picture of its own memory with channels side by side, all black.
inline picture make_picture(int64_t height, int64_t width, int64_t channels) {
  picture out{nullptr, channels, height, width, 1, width * channels, channels};
  out.owned.resize(static_cast<size_t>(height * width * channels));
  out.origin = out.owned.data();
  return out;
}

/// Told the size of an image, says which part of it is wanted; that part must
/// lie inside.
using window_choice = std::function<window(int64_t height, int64_t width)>;

} // namespace troupe::data
