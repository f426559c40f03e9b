#include "models/engine/block_cache.hpp"

#include <catch2/catch_test_macros.hpp>

#include <cstdint>
#include <cstring>
#include <deque>
#include <random>
#include <thread>
#include <vector>

using troupe::models::block_cache;

namespace {

constexpr size_t mebibyte = 1024 * 1024;

} // namespace

TEST_CASE("a block that came back is taken again") {
  block_cache all;
  auto* first = all.take_block(mebibyte);
  CHECK(reinterpret_cast<uintptr_t>(first) % 4096 == 0);
  std::memset(first, 1, mebibyte);
  CHECK(all.give(first));
  CHECK(all.usage().kept == mebibyte);
  auto* again = all.take_block(mebibyte - 1);
  CHECK(again == first);
  CHECK(all.usage().kept == 0);
  auto* other = all.take_block(mebibyte);
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

TEST_CASE("half more than the peak is held at most") {
  block_cache all;
  std::vector<void*> taken;
  for (size_t i = 0; i < 8; ++i)
    taken.push_back(all.take_block(mebibyte));
  for (auto* x : taken)
    all.give(x);
  CHECK(all.usage().kept == 8 * mebibyte);
  // No block that is kept has any of these sizes.
  taken.clear();
  for (size_t i = 0; i < 4; ++i) {
    taken.push_back(all.take_block(2 * mebibyte));
    CHECK(all.usage().used + all.usage().kept <= 12 * mebibyte);
  }
  CHECK(all.usage().kept == 4 * mebibyte);
  for (auto* x : taken)
    all.give(x);
}

TEST_CASE("a larger block is taken before the bound is broken") {
  block_cache all;
  auto* large = all.take_block(4 * mebibyte);
  all.give(large);
  auto* small = all.take_block(3 * mebibyte);
  CHECK(small == large);
  CHECK(all.usage().used == 4 * mebibyte);
  CHECK(all.usage().peak == 4 * mebibyte);
  auto* next = all.take_block(3 * mebibyte);
  CHECK(all.usage().used == 7 * mebibyte);
  CHECK(all.usage().peak == 6 * mebibyte); // Of what was asked for.
  CHECK(all.usage().mapped == 2);
  all.give(small);
  all.give(next);
}

TEST_CASE("a block that is far too large is dropped instead") {
  block_cache all{4 * mebibyte};
  all.give(all.take_block(4 * mebibyte));
  auto* tiny = all.take_block(block_cache::smallest);
  CHECK(all.usage().mapped == 2);
  CHECK(all.usage().used == block_cache::smallest);
  CHECK(all.usage().kept == 0);
  all.give(tiny);
}

TEST_CASE("requests that recur need no new block within the bound") {
  // As in training: sizes that follow each other in turn, so that all of them
  // are never taken at the same time.
  std::minstd_rand draw{7};
  std::vector<size_t> sizes(60);
  for (auto& x : sizes)
    x = block_cache::smallest * (1 + draw() % 40);
  block_cache all;
  auto step = [&] {
    std::deque<void*> taken;
    for (auto size : sizes) {
      taken.push_back(all.take_block(size));
      if (taken.size() > 8) {
        all.give(taken.front());
        taken.pop_front();
      }
    }
    for (auto* x : taken)
      all.give(x);
    CHECK(all.usage().used == 0);
    CHECK(all.usage().kept <= all.usage().peak / 2 * 3);
  };
  for (int i = 0; i < 20; ++i)
    step();
  auto mapped = all.usage().mapped;
  for (int i = 0; i < 100; ++i)
    step();
  CHECK(all.usage().mapped == mapped);
}

TEST_CASE("nothing is kept beyond the limit, and nothing is refused") {
  block_cache all{4 * mebibyte};
  auto* first = all.take_block(3 * mebibyte);
  auto* second = all.take_block(3 * mebibyte);
  CHECK(all.usage().used == 6 * mebibyte);
  all.give(first);
  CHECK(all.usage().kept == 0);
  all.give(second);
  CHECK(all.usage().kept == 3 * mebibyte);
}

TEST_CASE("what nobody takes for a period goes back") {
  block_cache all;
  auto* rare = all.take_block(2 * mebibyte);
  all.give(rare);
  for (int period = 0; period < 3; ++period) {
    all.give(all.take_block(mebibyte));
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
            all.take_block(block_cache::smallest * (1 + draw() % 7)));
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
