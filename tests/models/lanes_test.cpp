#include "models/optim/lanes.hpp"

#include <catch2/catch_test_macros.hpp>

#include <atomic>
#include <chrono>
#include <stdexcept>
#include <thread>
#include <vector>

using namespace troupe::models;

TEST_CASE("a pass covers all elements, each once", "[lanes]") {
  for (size_t threads : {1, 2, 5}) {
    lanes uut{threads};
    CHECK(uut.count() == threads);
    for (size_t count : {0, 1, 63, 64, 65, 1000}) {
      INFO(threads << " threads, " << count << " elements");
      std::vector<std::atomic<int>> seen(count);
      uut.each(count, 64, [&](size_t first, size_t end) {
        if (first % 64 != 0)
          throw std::logic_error("not at a multiple of the grain");
        for (; first < end; ++first)
          ++seen[first];
      });
      size_t once = 0;
      for (const auto& one : seen)
        once += one == 1;
      CHECK(once == count);
    }
  }
}

TEST_CASE("threads make a pass at the same time", "[lanes]") {
  lanes uut{2};
  std::atomic<int> there = 0;
  // Each waits for the other.
  uut.each(2, 1, [&](size_t, size_t) {
    ++there;
    while (there < 2) {
      // nop
    }
  });
  CHECK(there == 2);
}

TEST_CASE("a thread that is held up leaves its pieces to the others",
          "[lanes]") {
  lanes uut{2};
  std::atomic<int> others = 0;
  auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  uut.each(16, 1, [&](size_t first, size_t) {
    if (first > 0) {
      ++others;
      return;
    }
    while (others < 15 && std::chrono::steady_clock::now() < end)
      std::this_thread::yield();
    CHECK(others == 15);
  });
}

TEST_CASE("what a part throws reaches the caller when all are done",
          "[lanes]") {
  lanes uut{3};
  std::atomic<int> done = 0;
  CHECK_THROWS_AS(uut.each(3, 1,
                           [&](size_t first, size_t) {
                             if (first == 1)
                               throw std::runtime_error("no");
                             ++done;
                           }),
                  std::runtime_error);
  CHECK(done == 2);
  uut.each(3, 1, [&](size_t, size_t) { ++done; });
  CHECK(done == 5);
}

TEST_CASE("copies share the threads", "[lanes]") {
  lanes first{4};
  auto second = first;
  first = {};
  CHECK(first.count() == 1);
  CHECK(second.count() == 4);
}
