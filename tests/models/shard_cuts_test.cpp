#include "models/layout/shard_cuts.hpp"

#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

using namespace troupe::models;

namespace {

/// Shards without gaps from the first element to the last, each with a page at
/// least, cut at pages.
void check_cuts(uint64_t count, size_t width, uint32_t shards) {
  INFO(count << " elements of " << width << " bytes in " << shards);
  auto ranges = cut(count, width, shards);
  REQUIRE(ranges.size() == shards);
  auto in_a_page = cut_alignment / width;
  uint64_t least = UINT64_MAX, most = 0;
  uint64_t next = 0;
  for (const auto& range : ranges) {
    REQUIRE(range.first == next);
    REQUIRE(range.first * width % cut_alignment == 0);
    REQUIRE(range.count > 0);
    next = range.end();
    auto pages = (range.count + in_a_page - 1) / in_a_page;
    least = std::min(least, pages);
    most = std::max(most, pages);
  }
  REQUIRE(next == count);
  REQUIRE(most - least <= 1);
}

} // namespace

TEST_CASE("a buffer is cut at pages into shards of equal size") {
  using ranges = std::vector<element_range>;
  CHECK((cut(4096, 4, 2) == ranges{{0, 2048}, {2048, 2048}}));
  CHECK((cut(5000, 4, 2) == ranges{{0, 2048}, {2048, 2952}}));
  CHECK((cut(1024, 8, 2) == ranges{{0, 512}, {512, 512}}));
  CHECK((cut(431'080, 4, 1) == ranges{{0, 431'080}}));
}

TEST_CASE("each shard has a page at least") {
  CHECK(most_shards(431'080, 4) == 421);
  CHECK(most_shards(1, 4) == 1);
  CHECK(most_shards(1024, 4) == 1);
  CHECK(most_shards(1025, 4) == 2);
  check_cuts(431'080, 4, 421);
  check_cuts(1025, 4, 2);
}

TEST_CASE("random buffers are cut without gaps") {
  std::mt19937_64 random{7};
  for (int i = 0; i < 2000; ++i) {
    auto width = random() % 2 == 0 ? 4u : 8u;
    auto count = 1 + random() % 3'000'000;
    auto most = most_shards(count, width);
    check_cuts(
      count, width,
      static_cast<uint32_t>(1 + random() % std::min<uint64_t>(most, 64)));
  }
}
