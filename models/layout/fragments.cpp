#include "models/layout/fragments.hpp"

#include "config/text/failure.hpp"

#include <algorithm>
#include <cstddef>
#include <string>

namespace troupe::models {

// A fragment ends with the parameter that brings its end nearest to its share
// of the whole, and leaves one parameter at least for each that comes later.
fragments::fragments(const flat_layout& layout, uint32_t count)
  : statistics_(layout.count() - layout.parameter_count()) {
  const auto& slots = layout.slots();
  if (count == 0 || count > slots.size())
    throw usage_error("fragments = " + std::to_string(count) +
                      ": the network has " + std::to_string(slots.size()) +
                      " parameters that are trained, and each fragment has one "
                      "of them at least: use at most as many");
  auto end_of = [&slots](size_t last) {
    return slots[last].offset + slots[last].count;
  };
  auto distance = [](uint64_t a, uint64_t b) {
    return a < b ? b - a : a - b;
  };
  size_t next = 0; // The first parameter of the fragment.
  for (uint32_t k = 0; k < count; ++k) {
    auto most = slots.size() - (count - k - 1); // Behind its last one.
    auto wanted = layout.parameter_count() / count * (k + 1);
    auto last = k + 1 == count ? slots.size() - 1 : next;
    while (last + 1 < most &&
           distance(end_of(last + 1), wanted) < distance(end_of(last), wanted))
      ++last;
    auto first = slots[next].offset;
    ranges_.push_back({first, end_of(last) - first});
    next = last + 1;
  }
}

fragments::fragments(std::span<const uint64_t> sizes) {
  uint64_t first = 0;
  for (auto size : sizes) {
    ranges_.push_back({first, size});
    first += size;
  }
}

fragments fragments::within(const element_range& part) const {
  fragments out;
  for (const auto& range : ranges_) {
    auto first = std::clamp(range.first, part.first, part.end());
    auto end = std::clamp(range.end(), part.first, part.end());
    out.ranges_.push_back({first - part.first, end - first});
  }
  auto parameters = ranges_.back().end();
  out.statistics_ =
    std::min(statistics_, part.end() - std::min(part.end(), parameters));
  return out;
}

std::vector<uint64_t> fragments::sizes() const {
  std::vector<uint64_t> out;
  for (uint32_t k = 0; k < count(); ++k)
    out.push_back(all(k).count);
  return out;
}

} // namespace troupe::models
