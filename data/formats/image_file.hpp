#pragma once
// Decodes JPEG and PNG images, as PIL opens them and converts them to RGB: gray
// becomes three equal channels, palettes become colours, alpha is dropped, CMYK
// is read as Adobe writes it, 16 bits become 8. The format is recognised by
// content, not by name. Files are not trusted: a header that promises more
// pixels than its file can hold is refused before memory is allocated.
// Stateless; any thread.

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

/// Decodes the part of an image that `choose` asks for, into three interleaved
/// channels. `name` stands for the file in errors.
/// @throws run_error naming file, position and what is wrong there.
picture decode_image(std::span<const uint8_t> bytes, const std::string& name,
                     const window_choice& choose);

/// Reads a whole file.
/// @throws run_error if it cannot be read.
std::vector<uint8_t> read_file(const std::filesystem::path& file);

// -- by kind ------------------------------------------------------------------

picture decode_jpeg(std::span<const uint8_t> bytes, const std::string& name,
                    const window_choice& choose);
picture decode_png(std::span<const uint8_t> bytes, const std::string& name,
                   const window_choice& choose);

/// Throws `run_error` if there are too many pixels, or more than a file of
/// `bytes` bytes can hold with at most `densest` pixels per byte.
void require_possible(const std::string& name, uint64_t width, uint64_t height,
                      uint64_t bytes, uint64_t densest);

} // namespace troupe::data
