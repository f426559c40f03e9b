#include "actors/links/joined_outlet.hpp"

#include <algorithm>
#include <utility>

namespace troupe {

joined_outlet::joined_outlet(std::vector<part> parts)
  : parts_(std::move(parts)) {
  // nop
}

void joined_outlet::begin(const payload& gradient) {
  const auto* data = gradient.bytes().data();
  for (const auto& [outlet, shape] : parts_) {
    if (outlet)
      outlet->begin({shape, gradient.owner(), data});
    data += shape.bytes();
  }
}

void joined_outlet::ready(uint64_t from) {
  uint64_t first = 0;
  for (const auto& [outlet, shape] : parts_) {
    auto last = first + shape.bytes();
    if (outlet && from < last)
      outlet->ready(std::max(from, first) - first);
    first = last;
  }
}

void joined_outlet::computed(double seconds) {
  for (const auto& [outlet, shape] : parts_)
    if (outlet)
      outlet->computed(seconds);
}

} // namespace troupe
