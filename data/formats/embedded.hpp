#pragma once
// The bundled digits: files that the build embeds in the library (embed.cmake).
// Constant data; any thread.

#include <cstdint>
#include <span>

namespace troupe::data {

extern const std::span<const uint8_t> embedded_digits_images;
extern const std::span<const uint8_t> embedded_digits_labels;

} // namespace troupe::data
