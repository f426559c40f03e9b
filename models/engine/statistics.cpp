#include "models/engine/statistics.hpp"

#include "models/optim/aggregate.hpp"

#include <algorithm>
#include <vector>

namespace troupe::models {

namespace {

template <class T>
void average(const at::Tensor& to, const std::vector<at::Tensor>& from,
             std::span<const double> shares) {
  blocked_mean<T> mean{from, shares};
  auto* out = to.mutable_data_ptr<T>();
  auto count = static_cast<size_t>(to.numel());
  for (size_t first = 0; first < count; first += mean.block()) {
    auto n = std::min(mean.block(), count - first);
    std::copy_n(mean.at(first, n), n, out + first);
  }
}

} // namespace

void merge_statistics(config::buffers_rule rule, const at::Tensor& next,
                      std::span<const at::Tensor> parts,
                      std::span<const double> shares) {
  if (rule == config::buffers_rule::first) {
    parts = parts.first(1);
    shares = shares.first(1);
  }
  std::vector<at::Tensor> from(parts.begin(), parts.end());
  if (next.scalar_type() == at::kDouble)
    average<double>(next, from, shares);
  else
    average<float>(next, from, shares);
}

} // namespace troupe::models
