#include "config/text/failure.hpp"
#include "data/formats/image_file.hpp"
#include "data/transforms/transforms.hpp"
#include "tests/data/image_files.hpp"
#include "tests/support/error_line.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <cstdlib>

using namespace troupe;
using namespace troupe::data;
using namespace troupe::test;
using Catch::Matchers::ContainsSubstring;

namespace {

window everything(int64_t height, int64_t width) {
  return {0, 0, height, width};
}

bytes decode(const bytes& file) {
  auto image = decode_image(file, "x", everything);
  return cut(image, image.whole()).owned;
}

std::string decode_complaint(const bytes& file) {
  return error_line<run_error>([&] { decode_image(file, "x", everything); });
}

bytes tripled(const bytes& gray) {
  bytes out;
  for (auto x : gray)
    out.insert(out.end(), 3, x);
  return out;
}

int largest_gap(const bytes& a, const bytes& b) {
  REQUIRE(a.size() == b.size());
  int out = 0;
  for (size_t i = 0; i < a.size(); ++i)
    out = std::max(out, std::abs(a[i] - b[i]));
  return out;
}

/// A PNG's header alone, with its checksum right.
bytes png_that_promises(uint32_t width, uint32_t height) {
  auto out = png_file(1, 1, 1, {0});
  bytes size;
  append(size, width);
  append(size, height);
  std::copy(size.begin(), size.end(), out.begin() + 16);
  auto sum = static_cast<uint32_t>(crc32(0, out.data() + 12, 17));
  bytes end;
  append(end, sum);
  std::copy(end.begin(), end.end(), out.begin() + 29);
  return out;
}

} // namespace

TEST_CASE("a PNG image comes back as it was", "[images]") {
  auto pixels = slopes(13, 17, 3);
  CHECK(decode(png_file(13, 17, 3, pixels)) == pixels);
}

TEST_CASE("gray becomes three equal channels", "[images]") {
  auto gray = slopes(9, 11, 1);
  CHECK(decode(png_file(9, 11, 1, gray)) == tripled(gray));
  CHECK(largest_gap(decode(jpeg_file(9, 11, 1, gray)), tripled(gray)) <= 8);
}

TEST_CASE("interlaced images are as others", "[images]") {
  auto pixels = slopes(21, 19, 3);
  auto file = png_of_depth(21, 19, 3, 8, true, pixels);
  CHECK(decode(file) == pixels);
  auto all = decode_image(file, "x", everything);
  window part{7, 3, 9, 11};
  auto found = decode_image(file, "x", [&](int64_t, int64_t) { return part; });
  CHECK(cut(found, found.whole()).owned == cut(all, part).owned);
}

TEST_CASE("16 bits become 8 as PIL makes them", "[images]") {
  // Of 16-bit colours the upper byte is taken; gray is clipped.
  bytes deep;
  bytes upper;
  for (auto x : slopes(5, 6, 3)) {
    deep.insert(deep.end(), {x, 200});
    upper.push_back(x);
  }
  CHECK(decode(png_of_depth(5, 6, 3, 16, false, deep)) == upper);
  CHECK(decode(png_of_depth(1, 4, 1, 16, false, {0, 7, 0, 255, 1, 0, 90, 3})) ==
        tripled({7, 255, 255, 255}));
}

TEST_CASE("alpha goes, and the colours under it stay", "[images]") {
  auto pixels = slopes(6, 7, 4);
  bytes colours;
  for (size_t i = 0; i < pixels.size(); ++i)
    if (i % 4 != 3)
      colours.push_back(pixels[i]);
  CHECK(decode(png_file(6, 7, 4, pixels)) == colours);
}

TEST_CASE("CMYK is taken as Adobe writes it", "[images]") {
  // No ink anywhere but a little black.
  bytes pixels;
  for (int i = 0; i < 64; ++i)
    pixels.insert(pixels.end(), {255, 255, 255, 200});
  auto found = decode(jpeg_file(8, 8, 4, pixels));
  CHECK(largest_gap(found, bytes(192, 200)) <= 2);
}

TEST_CASE("part of an image is what the whole has there", "[images]") {
  auto pixels = slopes(61, 83, 3);
  for (const auto& file :
       {png_file(61, 83, 3, pixels), jpeg_file(61, 83, 3, pixels),
        jpeg_file(61, 83, 3, pixels, true)}) {
    auto all = decode_image(file, "x", everything);
    for (const auto& part :
         {window{0, 0, 1, 1}, window{60, 82, 1, 1}, window{17, 33, 20, 21},
          window{0, 40, 61, 10}, window{40, 0, 5, 83}}) {
      auto found =
        decode_image(file, "x", [&](int64_t, int64_t) { return part; });
      CHECK(found.height == part.height);
      CHECK(cut(found, found.whole()).owned == cut(all, part).owned);
    }
  }
}

TEST_CASE("an image that is cut off is damaged, and says where", "[images]") {
  for (auto file : {png_file(40, 40, 3, slopes(40, 40, 3)),
                    jpeg_file(40, 40, 3, slopes(40, 40, 3)),
                    jpeg_file(40, 40, 3, slopes(40, 40, 3), true)}) {
    file.resize(file.size() / 2);
    auto line = decode_complaint(file);
    CHECK_THAT(line, ContainsSubstring("x: at byte "));
    CHECK_THAT(line, ContainsSubstring("image is damaged"));
    file.resize(10);
    CHECK_THAT(decode_complaint(file), ContainsSubstring("x: at byte "));
  }
}

TEST_CASE("what is no image is told from one", "[images]") {
  CHECK(decode_complaint(text("<html>")) ==
        "x: at byte 0: is neither a JPEG nor a PNG image");
  CHECK(decode_complaint({}) ==
        "x: at byte 0: is neither a JPEG nor a PNG image");
}

TEST_CASE("an image of 100,000 x 100,000 is refused unread", "[images]") {
  CHECK(decode_complaint(png_that_promises(100'000, 100'000)) ==
        "x: at byte 0: the header promises 100000x100000 pixels; the limit is "
        "178956970 in all");
  auto jpeg = jpeg_file(8, 8, 1, slopes(8, 8, 1));
  for (size_t i = 0; i + 9 < jpeg.size(); ++i)
    if (jpeg[i] == 0xff && jpeg[i + 1] == 0xc0)
      jpeg[i + 5] = jpeg[i + 7] = 0xff, jpeg[i + 6] = jpeg[i + 8] = 0xdc;
  CHECK_THAT(decode_complaint(jpeg), ContainsSubstring("the header promises "
                                                       "65500x65500 pixels"));
}

TEST_CASE("more pixels than a file can hold are refused unread", "[images]") {
  CHECK_THAT(decode_complaint(png_that_promises(10'000, 10'000)),
             ContainsSubstring("the header promises 10000x10000 pixels, more "
                               "than "));
}

TEST_CASE("a damaged byte is an error or an image, never more", "[images]") {
  for (auto kind : {0, 1, 2}) {
    auto good = kind == 0 ? png_file(24, 24, 3, slopes(24, 24, 3))
                          : jpeg_file(24, 24, 3, slopes(24, 24, 3), kind == 2);
    for (size_t at = 0; at < good.size(); at += 3) {
      auto bad = good;
      bad[at] ^= 0x5a;
      try {
        decode(bad);
      } catch (const run_error& why) {
        CHECK_THAT(why.what(), ContainsSubstring("x: at byte "));
      }
    }
  }
}
