#include "data/formats/tar_shards.hpp"
#include "tests/fuzz/targets.hpp"

#include <algorithm>

namespace troupe::fuzz {

bool tar(bytes_view data) {
  auto size = data.size();
  auto read = [&](uint64_t at, std::span<uint8_t> to) {
    auto n = at >= size ? 0 : std::min<size_t>(to.size(), size - at);
    std::copy_n(data.data() + (at >= size ? 0 : at), n, to.begin());
    return n;
  };
  auto members = taken([&] {
    for (const auto& each : data::index_tar(read, size, "x"))
      require(each.begin <= size && each.size <= size - each.begin &&
                each.header < each.begin && each.end <= size,
              "a member lies in its file");
  });
  auto samples = taken([&] {
    for (const auto& each : data::index_samples(read, size, "x"))
      require(each.begin <= size && each.size <= size - each.begin &&
                each.first < each.last && each.label >= 0,
              "a sample lies in its file");
  });
  return members && samples;
}

} // namespace troupe::fuzz
