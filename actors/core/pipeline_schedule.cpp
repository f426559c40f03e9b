#include "actors/core/pipeline_schedule.hpp"

#include <algorithm>

namespace troupe::cores {

std::vector<pipeline_pass> passes_of(config::pipeline_order rule,
                                     uint32_t stage, uint32_t stages,
                                     uint32_t micro_batches) {
  // So many micro-batches go forward before the first comes back.
  auto ahead = rule == config::pipeline_order::gpipe
                 ? micro_batches
                 : std::min(micro_batches, stages - stage);
  std::vector<pipeline_pass> out;
  for (uint32_t m = 0; m < ahead; ++m)
    out.push_back({pass_kind::forward, m});
  for (uint32_t m = 0; m < micro_batches; ++m) {
    out.push_back({pass_kind::backward, m});
    if (ahead + m < micro_batches)
      out.push_back({pass_kind::forward, ahead + m});
  }
  return out;
}

} // namespace troupe::cores
