#pragma once
// `--dataset synthetic(shape=3x32x32,classes=10,samples=5000)`: a generated
// data set of any shape. Here the declaration is only read; data/formats
// generates the samples. Plain values.

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace troupe::config {

/// The defaults stand here.
struct synthetic_data {
  std::array<int64_t, 3> shape{3, 32, 32}; ///< C, H, W
  int64_t classes = 10;
  uint64_t samples = 5000; ///< For training; a fifth as many for testing.

  uint64_t test_samples() const { return samples < 5 ? 1 : samples / 5; }
};

/// Whether `text` is meant to be a declaration of synthetic data.
bool is_synthetic(std::string_view text);

/// Reads a whole declaration, or the bare name. Throws `bad_value`, which says
/// what is wrong.
synthetic_data parse_synthetic(std::string_view text);

/// The declaration with all of its parameters; reads back to the same.
std::string to_string(const synthetic_data& dataset);

} // namespace troupe::config
