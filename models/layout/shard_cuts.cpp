#include "models/layout/shard_cuts.hpp"

#include <algorithm>

namespace troupe::models {

uint64_t most_shards(uint64_t count, size_t element_bytes) {
  auto in_a_page = cut_alignment / element_bytes;
  return (count + in_a_page - 1) / in_a_page;
}

std::vector<element_range> cut(uint64_t count, size_t element_bytes,
                               uint32_t shards) {
  auto in_a_page = cut_alignment / element_bytes;
  auto pages = most_shards(count, element_bytes);
  std::vector<element_range> result;
  for (uint64_t k = 0; k < shards; ++k) {
    auto first = std::min(count, pages * k / shards * in_a_page);
    auto end = std::min(count, pages * (k + 1) / shards * in_a_page);
    result.push_back({first, end - first});
  }
  return result;
}

} // namespace troupe::models
