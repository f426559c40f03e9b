#pragma once
// Which elements of flat weights have no decay, for tests of models.

#include "models/optim/groups.hpp"

#include <vector>

namespace troupe::test {

/// The ranges of elements without decay, in order; adjacent ones are merged.
inline std::vector<models::element_range>
without_decay(const models::flat_layout& layout,
              config::decay_exclusion excluded) {
  config::training_settings settings;
  settings.weight_decay = 0.1;
  settings.weight_decay_exclude = excluded;
  auto groups = models::groups_of(layout, settings);
  std::vector<models::element_range> out;
  uint64_t first = 0;
  for (const auto& part : groups.parts) {
    if (groups.terms[part.group].weight_decay == 0) {
      if (out.empty() || out.back().end() != first)
        out.push_back({first, 0});
      out.back().count = part.end - out.back().first;
    }
    first = part.end;
  }
  return out;
}

} // namespace troupe::test
