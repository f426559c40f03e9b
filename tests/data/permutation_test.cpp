#include "config/text/failure.hpp"
#include "data/sampling/permutation.hpp"

#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <numeric>

using namespace troupe;
using namespace troupe::data;

namespace {

using numbers = std::vector<int64_t>;

numbers copy(std::span<const int64_t> xs) {
  return {xs.begin(), xs.end()};
}

} // namespace

TEST_CASE("an epoch visits every sample once", "[permutation]") {
  for (uint64_t n : {0, 1, 2, 10, 1437}) {
    auto order = epoch_permutation(1, 0, n);
    std::ranges::sort(order);
    numbers all(n);
    std::iota(all.begin(), all.end(), int64_t{0});
    CHECK(order == all);
  }
}

// Guards the order on which resumed runs and comparisons rest. The numbers come
// from a second implementation (Fisher-Yates over the same stream, in Python).
TEST_CASE("the order of an epoch never changes", "[permutation]") {
  CHECK(epoch_permutation(1, 0, 10) == numbers{2, 7, 4, 6, 3, 9, 0, 8, 1, 5});
  CHECK(epoch_permutation(1, 1, 10) == numbers{6, 3, 7, 9, 8, 4, 1, 2, 5, 0});
  CHECK(epoch_permutation(uint64_t{1} << 40, 0, 10) ==
        numbers{6, 1, 7, 8, 2, 0, 5, 3, 9, 4});
}

TEST_CASE("epochs and seeds have orders of their own", "[permutation]") {
  auto base = epoch_permutation(1, 0, 1000);
  CHECK(epoch_permutation(1, 0, 1000) == base);
  CHECK(epoch_permutation(1, 1, 1000) != base);
  CHECK(epoch_permutation(2, 0, 1000) != base);
}

TEST_CASE("all orders of three samples are equally likely", "[permutation]") {
  std::vector<int> seen(27);
  constexpr int epochs = 6000;
  for (int e = 0; e < epochs; ++e) {
    auto x = epoch_permutation(3, e, 3);
    ++seen[x[0] * 9 + x[1] * 3 + x[2]];
  }
  auto possible = std::ranges::count_if(seen, [](int n) { return n > 0; });
  CHECK(possible == 6);
  for (auto n : seen) {
    CHECK((n == 0 || (n > 860 && n < 1140)));
  }
}

TEST_CASE("too large a set is refused", "[permutation]") {
  CHECK_THROWS_AS(epoch_permutation(1, 0, uint64_t{1} << 32), run_error);
}

TEST_CASE("a lease is a piece of its epoch's order", "[permutation]") {
  epoch_order uut{5, 100};
  auto first = epoch_permutation(5, 0, 100);
  auto second = epoch_permutation(5, 1, 100);
  auto third = epoch_permutation(5, 2, 100);
  CHECK(copy(uut.lease_indices(0, 0, 100)) == first);
  CHECK(copy(uut.lease_indices(1, 90, 10)) ==
        numbers(second.begin() + 90, second.end()));
  CHECK(copy(uut.lease_indices(2, 0, 1)) == numbers{third.front()});
  CHECK(copy(uut.lease_indices(0, 64, 36)) ==
        numbers(first.begin() + 64, first.end()));
  CHECK(uut.lease_indices(1, 100, 0).empty());
}

TEST_CASE("the two epochs used last stay where they are", "[permutation]") {
  epoch_order uut{5, 100};
  const auto* zero = uut.lease_indices(0, 0, 1).data();
  const auto* one = uut.lease_indices(1, 0, 1).data();
  for (int i = 0; i < 3; ++i) {
    CHECK(uut.lease_indices(0, 0, 1).data() == zero);
    CHECK(uut.lease_indices(1, 0, 1).data() == one);
  }
  uut.lease_indices(2, 0, 1);
  CHECK(uut.lease_indices(1, 0, 1).data() == one);
}

TEST_CASE("a lease outside the set is refused", "[permutation]") {
  epoch_order uut{5, 100};
  CHECK_THROWS_AS(uut.lease_indices(0, 90, 11), run_error);
  CHECK_THROWS_AS(uut.lease_indices(0, 101, 0), run_error);
  CHECK_THROWS_AS(uut.lease_indices(0, 1, UINT64_MAX), run_error);
}

// The expected numbers are those of torch.utils.data.DistributedSampler with
// shuffle=False over range(10), which are positions here.
TEST_CASE("shares are those of DistributedSampler") {
  struct expected {
    uint64_t n;
    uint32_t ranks;
    std::vector<numbers> positions;
  };
  const expected all[] = {
    {10, 1, {{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}}},
    {10, 2, {{0, 2, 4, 6, 8}, {1, 3, 5, 7, 9}}},
    {10, 3, {{0, 3, 6, 9}, {1, 4, 7, 0}, {2, 5, 8, 1}}},
    {10, 4, {{0, 4, 8}, {1, 5, 9}, {2, 6, 0}, {3, 7, 1}}},
    {10, 7, {{0, 7}, {1, 8}, {2, 9}, {3, 0}, {4, 1}, {5, 2}, {6, 3}}},
    // With more than twice as many ranks as samples the order is repeated.
    {3, 8, {{0}, {1}, {2}, {0}, {1}, {2}, {0}, {1}}},
  };
  for (const auto& [n, ranks, positions] : all)
    for (uint64_t epoch : {0, 5}) {
      INFO(n << " samples, " << ranks << " ranks, epoch " << epoch);
      auto order = epoch_permutation(3, epoch, n);
      epoch_order uut{3, n, ranks};
      for (uint32_t rank = 0; rank < ranks; ++rank) {
        numbers wanted;
        for (auto at : positions[rank])
          wanted.push_back(order[static_cast<size_t>(at)]);
        CHECK(copy(uut.lease_indices(epoch, 0, wanted.size(), rank)) == wanted);
        CHECK_THROWS_AS(uut.lease_indices(epoch, 0, wanted.size() + 1, rank),
                        run_error);
      }
      if (ranks > 1)
        CHECK_THROWS_AS(uut.lease_indices(epoch, 0, 1, ranks), run_error);
    }
}

TEST_CASE("a part of a share begins where it is asked for") {
  epoch_order uut{5, 100, 3};
  auto share = copy(uut.lease_indices(2, 0, 34, 1));
  CHECK(copy(uut.lease_indices(2, 30, 4, 1)) ==
        numbers{share.begin() + 30, share.end()});
}
