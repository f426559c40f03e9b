#include "actors/links/joined_gradient_stream.hpp"

#include <algorithm>
#include <utility>

namespace troupe {

joined_gradient_stream::joined_gradient_stream(std::vector<part> parts)
  : parts_(std::move(parts)) {
  // nop
}

void joined_gradient_stream::begin(const payload& gradient) {
  const auto* data = gradient.bytes().data();
  for (const auto& [gradient_stream, shape] : parts_) {
    if (gradient_stream)
      gradient_stream->begin({shape, gradient.owner(), data});
    data += shape.bytes();
  }
}

void joined_gradient_stream::ready(uint64_t from) {
  uint64_t first = 0;
  for (const auto& [gradient_stream, shape] : parts_) {
    auto last = first + shape.bytes();
    if (gradient_stream && from < last)
      gradient_stream->ready(std::max(from, first) - first);
    first = last;
  }
}

void joined_gradient_stream::computed(double seconds) {
  for (const auto& [gradient_stream, shape] : parts_)
    if (gradient_stream)
      gradient_stream->computed(seconds);
}

} // namespace troupe
