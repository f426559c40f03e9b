#pragma once
// Converts the element types of the settings to LibTorch's. Pure functions.

#include "config/text/settings.hpp"

#include <c10/core/ScalarType.h>

#include <cstdint>

namespace troupe::models {

constexpr at::ScalarType to_aten(config::scalar_type x) {
  return x == config::scalar_type::float64 ? at::kDouble : at::kFloat;
}

/// Bytes of one element.
constexpr uint64_t size_of(config::scalar_type x) {
  return x == config::scalar_type::float64 ? 8 : 4;
}

} // namespace troupe::models
