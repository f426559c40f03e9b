#include "models/engine/replicas.hpp"

#include <torch/utils.h>

#include <algorithm>

namespace troupe::models {

std::vector<replica_part> cut_batch(uint64_t samples, uint32_t replicas) {
  auto size = std::max<uint64_t>(1, (samples + replicas - 1) / replicas);
  std::vector<replica_part> out;
  for (uint64_t first = 0; first == 0 || first < samples; first += size)
    out.push_back({first, std::min(size, samples - first), samples});
  return out;
}

void add_replica(const flat_layout& layout, const at::Tensor& sum,
                 const at::Tensor& gradient) {
  torch::NoGradGuard no_grad;
  layout.parameters_of(sum).add_(layout.parameters_of(gradient));
}

} // namespace troupe::models
