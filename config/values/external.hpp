#pragma once
// `--dataset external(samples=60000,id=mnist)`: only the processes that compute
// the gradients (`--compute external`) have the training samples. The run knows
// how many there are, and gives each its number. Plain values.

#include <cstdint>
#include <string>
#include <string_view>

namespace troupe::config {

struct external_data {
  uint64_t samples = 0;
  std::string id; ///< Tells these samples from others; any word.
};

/// Whether `text` is meant to be a declaration of external data.
bool is_external(std::string_view text);

/// Throws `bad_value`, which says what is wrong.
external_data parse_external(std::string_view text);

/// The declaration with all of its parameters; reads back to the same.
std::string to_string(const external_data& dataset);

} // namespace troupe::config
