#include "models/layout/fragments.hpp"

#include "config/text/failure.hpp"

#include <cstddef>
#include <string>

namespace troupe::models {

fragments::fragments(const flat_layout& layout) : fragments(layout, 1) {
  // nop
}

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

} // namespace troupe::models
