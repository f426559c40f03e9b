#include "models/engine/block_cache.hpp"

#include <catch2/catch_test_macros.hpp>

#include <cstdint>
#include <cstring>
#include <random>
#include <thread>
#include <vector>

using troupe::models::block_cache;

namespace {

constexpr size_t mebibyte = 1024 * 1024;

} // namespace

TEST_CASE("a block that came back is taken again") {
  block_cache all;
  auto* first = all.take(mebibyte);
  CHECK(reinterpret_cast<uintptr_t>(first) % 4096 == 0);
  std::memset(first, 1, mebibyte);
  CHECK(all.give(first));
  CHECK(all.usage().kept == mebibyte);
  auto* again = all.take(mebibyte - 1);
  CHECK(again == first);
  CHECK(all.usage().kept == 0);
  auto* other = all.take(mebibyte);
  CHECK(other != first);
  CHECK(all.usage().used == 2 * mebibyte);
  CHECK(all.give(again));
  CHECK(all.give(other));
  CHECK_FALSE(all.give(other));
}

TEST_CASE("memory from elsewhere is not taken back") {
  block_cache all;
  std::vector<char> other(3 * 4096);
  for (size_t i = 0; i < other.size(); i += 64)
    CHECK_FALSE(all.give(other.data() + i));
}

TEST_CASE("a quarter more than the peak is held at most") {
  block_cache all;
  std::vector<void*> taken;
  for (size_t i = 0; i < 8; ++i)
    taken.push_back(all.take(mebibyte));
  for (auto* x : taken)
    all.give(x);
  CHECK(all.usage().kept == 8 * mebibyte);
  // None of these fits what is kept.
  taken.clear();
  for (size_t i = 0; i < 4; ++i) {
    taken.push_back(all.take(2 * mebibyte));
    CHECK(all.usage().used + all.usage().kept <= 10 * mebibyte);
  }
  CHECK(all.usage().kept == 2 * mebibyte);
  for (auto* x : taken)
    all.give(x);
}

TEST_CASE("nothing is kept beyond the limit, and nothing is refused") {
  block_cache all{4 * mebibyte};
  auto* first = all.take(3 * mebibyte);
  auto* second = all.take(3 * mebibyte);
  CHECK(all.usage().used == 6 * mebibyte);
  all.give(first);
  CHECK(all.usage().kept == 0);
  all.give(second);
  CHECK(all.usage().kept == 3 * mebibyte);
}

TEST_CASE("what nobody takes for a period goes back") {
  block_cache all;
  auto* rare = all.take(2 * mebibyte);
  all.give(rare);
  for (int period = 0; period < 3; ++period) {
    all.give(all.take(mebibyte));
    all.end_period();
  }
  CHECK(all.usage().kept == mebibyte);
  CHECK(all.usage().peak == mebibyte);
  all.end_period(); // Without a request.
  CHECK(all.usage().kept == 0);
}

TEST_CASE("threads share blocks, each of which has one owner") {
  block_cache all{64 * mebibyte};
  std::vector<std::thread> threads;
  for (unsigned seed = 0; seed < 4; ++seed)
    threads.emplace_back([&all, seed] {
      std::minstd_rand draw{seed + 1};
      std::vector<std::pair<uint64_t*, uint64_t>> mine;
      for (uint64_t i = 0; i < 2000; ++i) {
        if (mine.size() < 5) {
          auto* x = static_cast<uint64_t*>(
            all.take(block_cache::smallest * (1 + draw() % 7)));
          *x = seed * 10000 + i;
          mine.emplace_back(x, *x);
        } else {
          std::swap(mine[draw() % mine.size()], mine.back());
          if (*mine.back().first != mine.back().second)
            std::abort();
          all.give(mine.back().first);
          mine.pop_back();
        }
        if (i % 500 == 0)
          all.end_period();
      }
      for (auto& x : mine)
        all.give(x.first);
    });
  for (auto& x : threads)
    x.join();
  CHECK(all.usage().used == 0);
}
