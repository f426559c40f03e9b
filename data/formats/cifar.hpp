#pragma once
// Parses the binary files of CIFAR-10 and CIFAR-100: records of one or two
// label bytes and 3,072 pixels, red, green, blue, row by row. Files are not
// trusted. Stateless; any thread.

#include "data/store.hpp"

#include <cstdint>
#include <span>
#include <string>

namespace troupe::data {

/// Appends the images and labels of a file. Of two labels the last is used; it
/// is below the number of classes of `to`.
/// @throws run_error naming `name`, the position and what is wrong there.
void parse_cifar(std::span<const uint8_t> bytes, uint32_t label_bytes,
                 const std::string& name, memory_store::parts& to);

} // namespace troupe::data
