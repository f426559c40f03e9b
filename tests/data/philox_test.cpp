#include "data/sampling/philox.hpp"

#include <catch2/catch_test_macros.hpp>

#include <vector>

using namespace troupe::data;

using block = std::array<uint32_t, 4>;

// From kat_vectors of the authors' library Random123.
TEST_CASE("Philox 4x32-10 gives the published answers", "[philox]") {
  CHECK(philox4x32({0, 0, 0, 0}, {0, 0}) ==
        block{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  uint32_t ones = 0xffffffff;
  CHECK(philox4x32({ones, ones, ones, ones}, {ones, ones}) ==
        block{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
  CHECK(philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
                   {0xa4093822, 0x299f31d0}) ==
        block{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
}

TEST_CASE("a stream is the blocks of counters 0, 1, ...", "[philox]") {
  uint64_t seed = 0x0123456789abcdef;
  uint64_t index = 0xfedcba9876543210;
  philox_stream uut{seed, random_purpose::epoch_order, index};
  for (uint32_t i = 0; i < 3; ++i) {
    for (auto expected :
         philox4x32({i, 1, 0x76543210, 0xfedcba98}, {0x89abcdef, 0x01234567})) {
      CHECK(uut.next() == expected);
    }
  }
}

TEST_CASE("streams of other seed, purpose or index differ", "[philox]") {
  auto first = [](uint64_t seed, random_purpose purpose, uint64_t index) {
    return philox_stream{seed, purpose, index}.next();
  };
  auto base = first(1, random_purpose::epoch_order, 0);
  CHECK(base != first(2, random_purpose::epoch_order, 0));
  CHECK(base != first(1, random_purpose::train_test_split, 0));
  CHECK(base != first(1, random_purpose::epoch_order, 1));
  CHECK(base != first(1, random_purpose::epoch_order, uint64_t{1} << 32));
}

TEST_CASE("below() is uniform", "[philox]") {
  philox_stream uut{7, random_purpose::epoch_order, 0};
  constexpr uint32_t bound = 7;
  constexpr int draws = 70'000;
  std::vector<int> seen(bound);
  for (int i = 0; i < draws; ++i) {
    ++seen.at(uut.below(bound));
  }
  double chi_square = 0;
  for (auto n : seen) {
    chi_square += (n - 10'000.0) * (n - 10'000.0) / 10'000.0;
  }
  CHECK(chi_square < 22.5); // 6 degrees of freedom: exceeded once in 1,000
  CHECK(uut.below(1) == 0);
}
