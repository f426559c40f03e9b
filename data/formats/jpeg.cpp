// Errors of libjpeg come as a longjmp. It may cross frames that hold nothing
// with a destructor, and no others: `guarded` calls lambdas that only call
// libjpeg.

#include "config/text/failure.hpp"
#include "data/formats/image_file.hpp"

#include <jerror.h>
#include <jpeglib.h>

#include <algorithm>
#include <csetjmp>
#include <cstddef>
#include <cstdio>
#include <optional>

namespace troupe::data {

namespace {

/// A block of 8x8 pixels takes at least a bit.
constexpr uint64_t densest_jpeg = 512;

/// The most scans of a progressive image: without a limit, scans of a few bytes
/// each could ask for minutes of work.
constexpr int most_scans = 500;

struct errors {
  jpeg_error_mgr base{};
  std::jmp_buf out;
  char text[JMSG_LENGTH_MAX] = "";
};

[[noreturn]] void leave(j_common_ptr from) {
  auto* to = reinterpret_cast<errors*>(from->err);
  to->base.format_message(from, to->text);
  std::longjmp(to->out, 1);
}

/// PIL ignores libjpeg's warnings, except missing bytes.
void warn(j_common_ptr from, int level) {
  if (level < 0 && from->err->msg_code == JWRN_JPEG_EOF)
    leave(from);
}

void count_scans(j_common_ptr from) {
  auto* image = reinterpret_cast<j_decompress_ptr>(from);
  if (image->input_scan_number > most_scans) {
    from->err->msg_code = JERR_BAD_PROGRESSION;
    leave(from);
  }
}

class jpeg {
public:
  jpeg(std::span<const uint8_t> bytes, const std::string& name)
    : bytes_(bytes), name_(name) {
    image_.err = jpeg_std_error(&errors_.base);
    errors_.base.error_exit = leave;
    errors_.base.emit_message = warn;
    progress_.progress_monitor = count_scans;
    jpeg_create_decompress(&image_);
    image_.progress = &progress_;
  }

  ~jpeg() { jpeg_destroy_decompress(&image_); }

  jpeg(const jpeg&) = delete;
  jpeg& operator=(const jpeg&) = delete;

  picture decode(const window_choice& choose) {
    guarded([this] {
      jpeg_mem_src(&image_, bytes_.data(), bytes_.size());
      jpeg_read_header(&image_, TRUE);
    });
    require_possible(name_, image_.image_width, image_.image_height,
                     bytes_.size(), densest_jpeg);
    auto part = choose(image_.image_height, image_.image_width);
    auto inks = image_.jpeg_color_space == JCS_CMYK ||
                image_.jpeg_color_space == JCS_YCCK;
    image_.out_color_space = inks ? JCS_CMYK : JCS_RGB;
    return inks ? to_rgb(read(part, 4), part) : read(part, 3);
  }

private:
  template <class Step>
  void guarded(Step step) {
    if (setjmp(errors_.out) != 0)
      throw run_error(name_ + ": at byte " + std::to_string(position()) +
                      ": the JPEG image is damaged: " + errors_.text);
    step();
  }

  size_t position() const {
    return image_.src == nullptr
             ? 0
             : bytes_.size() -
                 std::min(bytes_.size(), image_.src->bytes_in_buffer);
  }

  /// Decodes `part` and not much more. Chroma is smoothed across blocks, so one
  /// block around it is decoded, too: the bytes equal those of the whole image.
  picture read(const window& part, int64_t channels) {
    auto left = static_cast<JDIMENSION>(part.left);
    auto width = static_cast<JDIMENSION>(part.width);
    JDIMENSION above = 0;
    guarded([&] {
      jpeg_start_decompress(&image_);
      auto across = static_cast<JDIMENSION>(image_.max_h_samp_factor * DCTSIZE);
      auto down = static_cast<JDIMENSION>(image_.max_v_samp_factor * DCTSIZE);
      auto right = std::min(left + width + across, image_.output_width);
      left -= std::min(left, across);
      width = right - left;
      if (width < image_.output_width)
        jpeg_crop_scanline(&image_, &left, &width);
      above = static_cast<JDIMENSION>(part.top);
      above = above / down * down;
      above -= std::min(above, down);
      if (above > 0)
        jpeg_skip_scanlines(&image_, above);
    });
    auto rows = part.top + part.height - above;
    auto out = make_picture(rows, width, channels);
    auto* to = out.owned.data();
    guarded([&] {
      while (image_.output_scanline < above + rows) {
        auto* row = to + (image_.output_scanline - above) * out.row;
        jpeg_read_scanlines(&image_, &row, 1);
      }
    });
    out.origin = out.at(part.top - above, part.left - left, 0);
    out.height = part.height;
    out.width = part.width;
    return out;
  }

  /// Adobe writes how much of an ink is missing.
  static picture to_rgb(const picture& inks, const window& part) {
    auto out = make_picture(part.height, part.width, 3);
    auto* to = out.owned.data();
    for (int64_t y = 0; y < part.height; ++y)
      for (int64_t x = 0; x < part.width; ++x) {
        const auto* from = inks.at(y, x, 0);
        int white = from[3];
        for (int c = 0; c < 3; ++c) {
          auto product = (255 - from[c]) * white + 128;
          auto ink = ((product >> 8) + product) >> 8;
          *to++ = static_cast<uint8_t>(std::clamp(white - ink, 0, 255));
        }
      }
    return out;
  }

  std::span<const uint8_t> bytes_;
  const std::string& name_;
  errors errors_;
  jpeg_progress_mgr progress_{};
  jpeg_decompress_struct image_{};
};

} // namespace

picture decode_jpeg(std::span<const uint8_t> bytes, const std::string& name,
                    const window_choice& choose) {
  return jpeg{bytes, name}.decode(choose);
}

} // namespace troupe::data
