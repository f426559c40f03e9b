#include "data/sampling/permutation.hpp"

#include "config/text/failure.hpp"
#include "data/sampling/philox.hpp"

#include <limits>
#include <numeric>
#include <string>
#include <utility>

namespace troupe::data {

std::vector<int64_t> epoch_permutation(uint64_t seed, uint64_t epoch,
                                       uint64_t n) {
  if (n > std::numeric_limits<uint32_t>::max()) {
    throw run_error("a data set of " + std::to_string(n) +
                    " samples is too large: at most 4294967295");
  }
  std::vector<int64_t> order(n);
  std::iota(order.begin(), order.end(), int64_t{0});
  philox_stream random{seed, random_purpose::epoch_order, epoch};
  for (uint64_t left = n; left > 1; --left) {
    std::swap(order[left - 1],
              order[random.below(static_cast<uint32_t>(left))]);
  }
  return order;
}

epoch_order::epoch_order(uint64_t seed, uint64_t n, uint32_t shares)
  : seed_(seed), size_(n), shares_(shares) {
  // nop
}

std::span<const int64_t> epoch_order::lease_indices(uint64_t epoch,
                                                    uint64_t first,
                                                    uint64_t count,
                                                    uint32_t rank) {
  auto most = size_ / shares_ + (size_ % shares_ == 0 ? 0 : 1);
  if (first > most || count > most - first ||
      (shares_ > 1 && rank >= shares_)) {
    throw run_error("a lease of " + std::to_string(count) + " samples from " +
                    std::to_string(first) + " of epoch " +
                    std::to_string(epoch) + " leaves the data set of " +
                    std::to_string(size_) + " samples");
  }
  const auto& order = order_of(epoch).order;
  if (shares_ == 1)
    return std::span{order}.subspan(first, count);
  share_.clear();
  for (auto i = first; i < first + count; ++i)
    share_.push_back(order[(rank + i * shares_) % size_]);
  return share_;
}

const epoch_order::cached_epoch& epoch_order::order_of(uint64_t epoch) {
  auto* oldest = &cache_.front();
  for (auto& entry : cache_) {
    if (entry.last_use > 0 && entry.epoch == epoch) {
      entry.last_use = ++uses_;
      return entry;
    }
    if (entry.last_use < oldest->last_use) {
      oldest = &entry;
    }
  }
  *oldest = {epoch, ++uses_, epoch_permutation(seed_, epoch, size_)};
  return *oldest;
}

} // namespace troupe::data
