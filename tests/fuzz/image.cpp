#include "data/formats/image_file.hpp"
#include "data/transforms/transforms.hpp"
#include "tests/fuzz/targets.hpp"

namespace troupe::fuzz {

namespace {

/// Touches every pixel.
void look_at_image(const data::picture& image) {
  volatile uint64_t sum = 0;
  for (int64_t y = 0; y < image.height; ++y)
    for (int64_t x = 0; x < image.width; ++x)
      for (int64_t c = 0; c < image.channels; ++c)
        sum = sum + *image.at(y, x, c);
}

} // namespace

bool image(bytes_view bytes) {
  auto at = [&](size_t share) {
    return bytes[bytes.size() / share];
  };
  // A part that depends on the bytes, and all of it.
  auto part = [&](int64_t height, int64_t width) {
    data::window out;
    out.top = bytes.back() % height;
    out.left = at(2) % width;
    out.height = 1 + at(3) % (height - out.top);
    out.width = 1 + at(4) % (width - out.left);
    return out;
  };
  auto whole = [](int64_t height, int64_t width) {
    return data::window{0, 0, height, width};
  };
  taken([&] {
    auto image = data::decode_image(bytes, "x", part);
    look_at_image(image);
    // Part of it resized: grown, shrunk, or left alone one way.
    auto height = at(5) % 4 == 0 ? image.height : 1 + at(5) % 60;
    auto width = at(6) % 4 == 0 ? image.width : 1 + at(6) % 60;
    look_at_image(data::resize(image, height, width, part(height, width)));
  });
  return taken([&] { look_at_image(data::decode_image(bytes, "x", whole)); });
}

} // namespace troupe::fuzz
