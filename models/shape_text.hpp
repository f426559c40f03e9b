#pragma once
// A shape as users read it: 3x32x32. A pure function.

#include <c10/util/ArrayRef.h>

#include <string>

namespace troupe::models {

inline std::string shape_text(at::IntArrayRef shape) {
  std::string out;
  for (auto extent : shape)
    out += (out.empty() ? "" : "x") + std::to_string(extent);
  return out;
}

} // namespace troupe::models
