#include "apps/launch/placement.hpp"

#include <algorithm>

namespace troupe::app {

std::vector<size_t> place_workers(std::span<const uint32_t> slots,
                                  size_t workers, bool with_server) {
  std::vector<uint32_t> left{slots.begin(), slots.end()};
  if (with_server)
    --left.front();
  std::vector<size_t> out;
  while (out.size() < workers) {
    if (std::ranges::all_of(left, [](uint32_t one) { return one == 0; }))
      left.assign(slots.begin(), slots.end());
    for (size_t i = 0; i < left.size() && out.size() < workers; ++i)
      if (left[i] > 0) {
        --left[i];
        out.push_back(i);
      }
  }
  return out;
}

} // namespace troupe::app
