#include "data/image_file.hpp"
#include "data/transforms.hpp"
#include "tests/fuzz/target.hpp"

#include <algorithm>

using namespace troupe;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::span<const uint8_t> bytes{data, size};
  // A part that depends on the bytes, and all of it.
  auto part = [&](int64_t height, int64_t width) {
    data::window out;
    out.top = bytes.back() % height;
    out.left = bytes[size / 2] % width;
    out.height = 1 + bytes[size / 3] % (height - out.top);
    out.width = 1 + bytes[size / 4] % (width - out.left);
    return out;
  };
  auto whole = [](int64_t height, int64_t width) {
    return data::window{0, 0, height, width};
  };
  uint64_t sum = 0; // Touches every pixel.
  auto look_at = [&](const data::picture& image) {
    for (int64_t y = 0; y < image.height; ++y)
      for (int64_t x = 0; x < image.width; ++x)
        for (int64_t c = 0; c < image.channels; ++c)
          sum += *image.at(y, x, c);
  };
  fuzz::expect_complaint_or_nothing([&] {
    auto image = data::decode_image(bytes, "x", part);
    look_at(image);
    // Part of it resized: grown, shrunk, or left alone one way.
    auto height =
      bytes[size / 5] % 4 == 0 ? image.height : 1 + bytes[size / 5] % 60;
    auto width =
      bytes[size / 6] % 4 == 0 ? image.width : 1 + bytes[size / 6] % 60;
    look_at(data::resize(image, height, width, part(height, width)));
  });
  fuzz::expect_complaint_or_nothing(
    [&] { look_at(data::decode_image(bytes, "x", whole)); });
  return sum == UINT64_MAX;
}
