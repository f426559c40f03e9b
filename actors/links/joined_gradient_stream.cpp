#include "actors/links/joined_gradient_stream.hpp"

#include <algorithm>
#include <utility>

namespace troupe {

joined_gradient_stream::joined_gradient_stream(std::vector<part> parts)
  : parts_(std::move(parts)) {
  // nop
}

void joined_gradient_stream::begin(const payload& gradient) {
  uint64_t first = 0;
  for (const auto& [early_gradients, shape] : parts_) {
    if (early_gradients)
      early_gradients->begin(gradient.part(first, shape.count));
    first += shape.count;
  }
}

void joined_gradient_stream::ready(uint64_t from) {
  uint64_t first = 0;
  for (const auto& [early_gradients, shape] : parts_) {
    auto last = first + shape.bytes();
    if (early_gradients && from < last)
      early_gradients->ready(std::max(from, first) - first);
    first = last;
  }
}

void joined_gradient_stream::computed(double seconds) {
  for (const auto& [early_gradients, shape] : parts_)
    if (early_gradients)
      early_gradients->computed(seconds);
}

} // namespace troupe
