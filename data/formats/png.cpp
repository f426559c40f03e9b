// Errors of libpng come as a longjmp. It may cross frames that hold nothing
// with a destructor, and no others: `guarded` calls lambdas that only call
// libpng.

#include "config/text/failure.hpp"
#include "data/formats/image_file.hpp"

#include <png.h>

#include <algorithm>
#include <csetjmp>
#include <cstdio>
#include <cstring>

namespace troupe::data {

namespace {

/// Deflate makes at most 1,032 bytes of one, and a byte holds eight pixels.
constexpr uint64_t densest_png = 1032 * 8;

class png {
public:
  png(std::span<const uint8_t> bytes, const std::string& name)
    : bytes_(bytes), name_(name) {
    png_ = png_create_read_struct(PNG_LIBPNG_VER_STRING, this, &leave, &ignore);
    info_ = png_ == nullptr ? nullptr : png_create_info_struct(png_);
    if (info_ == nullptr) {
      png_destroy_read_struct(&png_, nullptr, nullptr);
      throw run_error(name + ": no memory for libpng");
    }
    png_set_read_fn(png_, this, &give);
    png_set_user_limits(png_, 0x7fffffff, 0x7fffffff); // Our limits come later.
  }

  ~png() { png_destroy_read_struct(&png_, &info_, nullptr); }

  png(const png&) = delete;
  png& operator=(const png&) = delete;

  picture decode(const window_choice& choose) {
    guarded([this] { png_read_info(png_, info_); });
    int64_t width = png_get_image_width(png_, info_);
    int64_t height = png_get_image_height(png_, info_);
    require_possible(name_, static_cast<uint64_t>(width),
                     static_cast<uint64_t>(height), bytes_.size(), densest_png);
    auto part = choose(height, width);
    // PIL keeps 16 bits of gray until it has to make them RGB, and then clips.
    auto clips = png_get_bit_depth(png_, info_) == 16 &&
                 png_get_color_type(png_, info_) == PNG_COLOR_TYPE_GRAY;
    int passes = 1;
    guarded([&] {
      if (png_get_color_type(png_, info_) == PNG_COLOR_TYPE_PALETTE)
        png_set_palette_to_rgb(png_);
      else if (png_get_bit_depth(png_, info_) < 8)
        png_set_expand_gray_1_2_4_to_8(png_);
      if (!clips) {
        png_set_strip_16(png_);
        png_set_gray_to_rgb(png_);
      }
      png_set_strip_alpha(png_);
      passes = png_set_interlace_handling(png_);
      png_read_update_info(png_, info_);
    });
    auto row = static_cast<size_t>(png_get_rowbytes(png_, info_));
    if (row != static_cast<size_t>(width) * (clips ? 2 : 3))
      throw run_error(name_ + ": at byte 0: the PNG image is of no known kind");
    auto all = passes == 1 ? read_part(part, row)
                           : read_passes(part, row, height, passes);
    return to_picture(all, part, clips);
  }

private:
  /// The rows of `part`, as wide as the image.
  std::vector<uint8_t> read_part(const window& part, size_t row) {
    std::vector<uint8_t> out(static_cast<size_t>(part.height) * row);
    auto* to = out.data();
    guarded([&] {
      for (int64_t y = 0; y < part.top; ++y)
        png_read_row(png_, to, nullptr);
      for (int64_t y = 0; y < part.height; ++y)
        png_read_row(png_, to + static_cast<size_t>(y) * row, nullptr);
    });
    return out;
  }

  std::vector<uint8_t> read_passes(const window& part, size_t row,
                                   int64_t height, int passes) {
    std::vector<uint8_t> out(static_cast<size_t>(height) * row);
    auto* to = out.data();
    guarded([&] {
      for (int pass = 0; pass < passes; ++pass)
        for (int64_t y = 0; y < height; ++y)
          png_read_row(png_, to + static_cast<size_t>(y) * row, nullptr);
    });
    auto begin = out.begin() + part.top * static_cast<int64_t>(row);
    return {begin, begin + part.height * static_cast<int64_t>(row)};
  }

  static picture to_picture(std::vector<uint8_t>& rows, const window& part,
                            bool clips) {
    auto row = static_cast<int64_t>(rows.size()) / part.height;
    if (!clips) {
      picture out{nullptr, 3, part.height, part.width, 1, row, 3, {}};
      out.owned = std::move(rows);
      out.origin = out.owned.data() + part.left * 3;
      return out;
    }
    auto out = make_picture(part.height, part.width, 3);
    auto* to = out.owned.data();
    for (int64_t y = 0; y < part.height; ++y)
      for (int64_t x = part.left; x < part.left + part.width; ++x, to += 3) {
        const auto* from = rows.data() + y * row + x * 2;
        std::fill_n(to, 3, from[0] == 0 ? from[1] : 255);
      }
    return out;
  }

  template <class Step>
  void guarded(Step step) {
    if (setjmp(out_) != 0)
      throw run_error(name_ + ": at byte " + std::to_string(position_) +
                      ": the PNG image is damaged: " + text_);
    step();
  }

  [[noreturn]] static void leave(png_structp from, png_const_charp message) {
    auto* self = static_cast<png*>(png_get_error_ptr(from));
    std::snprintf(self->text_, sizeof self->text_, "%s", message);
    std::longjmp(self->out_, 1);
  }

  static void ignore(png_structp, png_const_charp) {
    // nop
  }

  static void give(png_structp to, png_bytep bytes, size_t count) {
    auto* self = static_cast<png*>(png_get_io_ptr(to));
    if (count > self->bytes_.size() - self->position_)
      png_error(to, "the file ends too soon");
    std::memcpy(bytes, self->bytes_.data() + self->position_, count);
    self->position_ += count;
  }

  std::span<const uint8_t> bytes_;
  const std::string& name_;
  size_t position_ = 0;
  png_structp png_ = nullptr;
  png_infop info_ = nullptr;
  std::jmp_buf out_;
  char text_[160] = "";
};

} // namespace

picture decode_png(std::span<const uint8_t> bytes, const std::string& name,
                   const window_choice& choose) {
  return png{bytes, name}.decode(choose);
}

} // namespace troupe::data
