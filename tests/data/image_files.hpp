#pragma once
// Makes images for tests, in memory and as JPEG, PNG and tar files, using the
// libraries' own writers.

#include "tests/data/idx_files.hpp"

#include <jpeglib.h>
#include <png.h>

#include <cstdio>
#include <cstring>
#include <string>
#include <utility>

namespace troupe::test {

/// Pixels with `channels` interleaved values: slopes, no two rows alike.
inline bytes slopes(uint32_t height, uint32_t width, uint32_t channels) {
  bytes out;
  for (uint32_t y = 0; y < height; ++y)
    for (uint32_t x = 0; x < width; ++x)
      for (uint32_t c = 0; c < channels; ++c)
        out.push_back(static_cast<uint8_t>((y * 5 + x * (c + 2) + 40 * c) / 2));
  return out;
}

/// 1: gray, 3: RGB, 4: RGB and alpha.
inline bytes png_file(uint32_t height, uint32_t width, uint32_t channels,
                      const bytes& pixels) {
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  image.width = width;
  image.height = height;
  image.format = channels == 1   ? PNG_FORMAT_GRAY
                 : channels == 3 ? PNG_FORMAT_RGB
                                 : PNG_FORMAT_RGBA;
  png_alloc_size_t size = 0;
  png_image_write_to_memory(&image, nullptr, &size, 0, pixels.data(), 0,
                            nullptr);
  bytes out(size);
  png_image_write_to_memory(&image, out.data(), &size, 0, pixels.data(), 0,
                            nullptr);
  out.resize(size);
  return out;
}

/// An image of 8 or 16 bits, gray or RGB, in Adam7's seven passes or in one.
inline bytes png_of_depth(uint32_t height, uint32_t width, uint32_t channels,
                          int depth, bool interlaced, const bytes& pixels) {
  bytes out;
  auto* png =
    png_create_write_struct(PNG_LIBPNG_VER_STRING, nullptr, nullptr, nullptr);
  auto* info = png_create_info_struct(png);
  png_set_write_fn(
    png, &out,
    [](png_structp to, png_bytep from, size_t count) {
      auto& all = *static_cast<bytes*>(png_get_io_ptr(to));
      all.insert(all.end(), from, from + count);
    },
    nullptr);
  png_set_IHDR(png, info, width, height, depth,
               channels == 1 ? PNG_COLOR_TYPE_GRAY : PNG_COLOR_TYPE_RGB,
               interlaced ? PNG_INTERLACE_ADAM7 : PNG_INTERLACE_NONE,
               PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
  png_write_info(png, info);
  std::vector<png_bytep> rows;
  for (uint32_t y = 0; y < height; ++y)
    rows.push_back(const_cast<uint8_t*>(pixels.data()) +
                   size_t{y} * width * channels *
                     static_cast<size_t>(depth / 8));
  png_write_image(png, rows.data());
  png_write_end(png, info);
  png_destroy_write_struct(&png, &info);
  return out;
}

/// 1: gray, 3: RGB, 4: CMYK as Adobe writes it.
inline bytes jpeg_file(uint32_t height, uint32_t width, uint32_t channels,
                       const bytes& pixels, bool progressive = false) {
  jpeg_compress_struct image{};
  jpeg_error_mgr errors{};
  image.err = jpeg_std_error(&errors);
  jpeg_create_compress(&image);
  unsigned char* memory = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&image, &memory, &size);
  image.image_width = width;
  image.image_height = height;
  image.input_components = static_cast<int>(channels);
  image.in_color_space = channels == 1   ? JCS_GRAYSCALE
                         : channels == 3 ? JCS_RGB
                                         : JCS_CMYK;
  jpeg_set_defaults(&image);
  jpeg_set_quality(&image, 92, TRUE);
  if (progressive)
    jpeg_simple_progression(&image);
  jpeg_start_compress(&image, TRUE);
  while (image.next_scanline < height) {
    auto* row = const_cast<uint8_t*>(pixels.data()) +
                size_t{image.next_scanline} * width * channels;
    jpeg_write_scanlines(&image, &row, 1);
  }
  jpeg_finish_compress(&image);
  bytes out(memory, memory + size);
  jpeg_destroy_compress(&image);
  std::free(memory);
  return out;
}

/// A header block of a tar file, with its checksum.
inline bytes tar_header(const std::string& name, uint64_t size, char kind) {
  bytes out(512);
  auto put = [&](size_t at, const std::string& text) {
    std::memcpy(&out[at], text.data(), text.size());
  };
  auto octal = [](uint64_t x, int digits) {
    char text[32];
    std::snprintf(text, sizeof text, "%0*llo", digits,
                  static_cast<unsigned long long>(x));
    return std::string{text};
  };
  put(0, name.substr(0, 100));
  put(100, "0000644");
  put(124, octal(size, 11));
  put(136, octal(0, 11));
  out[156] = static_cast<uint8_t>(kind);
  put(257, "ustar");
  put(263, "00");
  put(148, "        ");
  uint64_t sum = 0;
  for (auto x : out)
    sum += x;
  put(148, octal(sum, 6));
  out[154] = 0;
  out[155] = ' ';
  return out;
}

/// A member with its padding.
inline bytes member(const std::string& name, const bytes& content,
                    char kind = '0') {
  auto out = tar_header(name, content.size(), kind);
  out.insert(out.end(), content.begin(), content.end());
  out.resize((out.size() + 511) / 512 * 512);
  return out;
}

inline bytes text(const std::string& from) {
  return {from.begin(), from.end()};
}

/// A tar file of these members, with its end blocks.
inline bytes tar_file(const std::vector<bytes>& members) {
  bytes out;
  for (const auto& each : members)
    out.insert(out.end(), each.begin(), each.end());
  out.resize(out.size() + 1024);
  return out;
}

/// A record of CIFAR's binary files.
inline bytes cifar_record(const bytes& labels, uint8_t shade) {
  auto out = labels;
  for (int i = 0; i < 3072; ++i)
    out.push_back(static_cast<uint8_t>(shade + i % 31));
  return out;
}

inline bytes operator+(bytes left, const bytes& right) {
  left.insert(left.end(), right.begin(), right.end());
  return left;
}

} // namespace troupe::test
