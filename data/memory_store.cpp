#include "config/text/failure.hpp"
#include "data/digest.hpp"
#include "data/store.hpp"

#include <algorithm>
#include <utility>

namespace troupe::data {

memory_store::memory_store(parts content) : content_(std::move(content)) {
  auto [channels, height, width] = content_.shape;
  auto pixels = static_cast<uint64_t>(channels * height * width);
  if (content_.pixels.size() != size() * pixels)
    throw run_error(
      content_.name + ": " + std::to_string(content_.pixels.size()) +
      " pixels do not make " + std::to_string(size()) + " images");
  auto highest = std::ranges::max_element(content_.labels);
  if (highest != content_.labels.end() && *highest >= content_.classes)
    throw run_error(content_.name + ": label " + std::to_string(*highest) +
                    " is not below " + std::to_string(content_.classes));
}

uint64_t memory_store::content_digest() const {
  digest out;
  out.add(std::span<const uint8_t>{content_.pixels});
  return out.value();
}

picture memory_store::load(uint64_t index, const window_choice& choose) const {
  auto [channels, height, width] = content_.shape;
  auto all = channels * height * width;
  picture out{content_.pixels.data() + static_cast<int64_t>(index) * all,
              channels,
              height,
              width,
              height * width,
              width,
              1};
  auto part = choose(height, width);
  out.origin = out.at(part.top, part.left, 0);
  out.height = part.height;
  out.width = part.width;
  return out;
}

} // namespace troupe::data
