#pragma once
// JPEG and PNG images, as PIL opens them and makes them RGB: gray becomes three
// equal channels, palettes their colours, alpha goes, CMYK is taken as Adobe
// writes it, 16 bits become 8. Told apart by content, whatever their names.
// Files are not trusted: a header that promises more pixels than its file can
// hold is refused before memory is taken.

#include "data/transforms/picture.hpp"

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::data {

/// No image may have more pixels than this.
inline constexpr uint64_t max_image_pixels = 178'956'970;

/// Whether a file of this name counts as an image: .jpg, .jpeg, .png, in any
/// case.
bool has_image_name(std::string_view name);

/// Decodes the part of an image that `choose` asks for, into three channels
/// side by side. `name` stands for the file in errors.
/// @throws run_error naming file, position and what is wrong there.
picture decode_image(std::span<const uint8_t> bytes, const std::string& name,
                     const window_choice& choose);

/// All of a file.
/// @throws run_error if it cannot be read.
std::vector<uint8_t> read_file(const std::filesystem::path& file);

// -- by kind ------------------------------------------------------------------

picture decode_jpeg(std::span<const uint8_t> bytes, const std::string& name,
                    const window_choice& choose);
picture decode_png(std::span<const uint8_t> bytes, const std::string& name,
                   const window_choice& choose);

/// Throws `run_error` unless so many pixels may be, and can be in a file of
/// `bytes` bytes, each of which holds at most `densest` of them.
void require_possible(const std::string& name, uint64_t width, uint64_t height,
                      uint64_t bytes, uint64_t densest);

} // namespace troupe::data
