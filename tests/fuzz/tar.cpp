#include "data/tar_shards.hpp"
#include "tests/fuzz/target.hpp"

#include <algorithm>

using namespace troupe;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  auto read = [&](uint64_t at, std::span<uint8_t> to) {
    auto n = at >= size ? 0 : std::min<size_t>(to.size(), size - at);
    std::copy_n(data + (at >= size ? 0 : at), n, to.begin());
    return n;
  };
  fuzz::expect_complaint_or_nothing([&] {
    for (const auto& each : data::index_tar(read, size, "x"))
      if (each.begin > size || each.size > size - each.begin ||
          each.header >= each.begin || each.end > size)
        std::abort();
  });
  fuzz::expect_complaint_or_nothing([&] {
    for (const auto& each : data::index_samples(read, size, "x"))
      if (each.begin > size || each.size > size - each.begin ||
          each.first >= each.last || each.label < 0)
        std::abort();
  });
  return 0;
}
