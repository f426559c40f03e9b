#pragma once
// The ranks of one communicator over the fake NCCL, polled in turn in a random
// order. Owned by a test, used on its thread.

#include "messages/transport/nccl/library/communicator.hpp"
#include "tests/nccl/fake_nccl.hpp"

#include <algorithm>
#include <memory>
#include <numeric>
#include <random>

namespace fake {

/// Whole numbers, whose sums are exact in any order.
inline std::vector<float> numbers(size_t count, std::mt19937_64& random) {
  std::vector<float> result(count);
  for (auto& x : result)
    x = static_cast<float>(static_cast<int>(random() % 2001) - 1000);
  return result;
}

/// All phases have these limits.
inline constexpr nccl::patience limits{1.0, 1.0, 1.0};

/// Seconds between two rounds of polling.
inline constexpr double tick = 0.001;

struct cluster {
  explicit cluster(int size, uint64_t seed = 1, double pace = 0.5)
    : random(seed) {
    reset(seed, pace);
    lib = library();
    nccl::abi::unique_id id;
    lib->call().get_unique_id(&id);
    for (int rank = 0; rank < size; ++rank)
      ranks.push_back(std::make_unique<nccl::communicator>(
        lib, nccl::place{id, rank, size, rank % 2}, limits, now));
  }

  nccl::communicator& operator[](int rank) {
    return *ranks[static_cast<size_t>(rank)];
  }

  /// Polls each rank that is not away once.
  void poll() {
    now += tick;
    std::vector<size_t> order(ranks.size());
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), random);
    for (auto i : order)
      if (ranks[i] && !away.contains(static_cast<int>(i)))
        ranks[i]->poll(now);
  }

  /// Polls until the condition holds, for at most `seconds`. Returns whether it
  /// does.
  template <class F>
  bool until(F&& holds, double seconds = 5) {
    for (auto end = now + seconds; now < end && !holds();)
      poll();
    return holds();
  }

  bool all(nccl::communicator::phase x) const {
    return std::all_of(ranks.begin(), ranks.end(),
                       [x](const auto& rank) { return rank->state() == x; });
  }

  double now = 100;
  nccl::library_ptr lib;
  std::mt19937_64 random;
  std::vector<std::unique_ptr<nccl::communicator>> ranks;
  std::set<int> away; ///< Not polled any more, as if killed.
};

} // namespace fake
