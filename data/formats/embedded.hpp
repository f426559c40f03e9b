#pragma once
// Files that the build puts into the library (embed.cmake).

#include <cstdint>
#include <span>

namespace troupe::data {

extern const std::span<const uint8_t> embedded_digits_images;
extern const std::span<const uint8_t> embedded_digits_labels;

} // namespace troupe::data
