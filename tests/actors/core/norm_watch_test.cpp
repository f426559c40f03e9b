// Which gradients are outliers: in small cases, and in long random histories.

#include "actors/core/norm_watch.hpp"

#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

using namespace troupe;
using namespace troupe::cores;

namespace {

constexpr uint64_t batch = 64;

worker_id worker(uint32_t i) {
  return worker_id{i};
}

/// A watch that knows workers 0, 1, ... by gradients of these norms.
norm_watch knowing(const std::vector<double>& norms) {
  norm_watch out{10};
  for (size_t i = 0; i < norms.size(); ++i)
    for (size_t k = 0; k < norm_watch::recent; ++k)
      out.judge(worker(static_cast<uint32_t>(i)), norms[i], batch);
  return out;
}

/// Norms of honest workers, with noise, around what they all have at a step.
class noise {
public:
  noise(uint64_t seed, double spread) : random_(seed), spread_(spread) {}

  double next(double around) {
    return around * std::exp(spread_ * normal_(random_));
  }

private:
  std::mt19937_64 random_;
  std::normal_distribution<double> normal_;
  double spread_;
};

} // namespace

TEST_CASE("a norm beyond the factor times the median of others is an outlier") {
  auto watch = knowing({1, 2, 3});
  auto small = watch.judge(worker(3), 20, batch);
  CHECK(small.norm == 20);
  CHECK(small.median == 2.0);
  CHECK_FALSE(small.is_outlier);
  auto other = knowing({1, 2, 3});
  CHECK(other.judge(worker(3), std::nextafter(20.0, 99), batch).is_outlier);
}

TEST_CASE("of two others the median is their mean") {
  auto watch = knowing({1, 4});
  CHECK(watch.judge(worker(2), 25, batch).median == 2.5);
  CHECK(watch.judge(worker(2), 25.01, batch).is_outlier);
}

TEST_CASE("with fewer than two others known nothing is an outlier") {
  norm_watch watch{10};
  for (double norm : {1.0, 1e9}) {
    auto alone = watch.judge(worker(0), norm, batch);
    CHECK_FALSE(alone.median);
    CHECK_FALSE(alone.is_outlier);
  }
  CHECK_FALSE(watch.judge(worker(1), 1, batch).median);
  CHECK(watch.judge(worker(2), 1, batch).median);
  watch.forget(worker(1));
  CHECK_FALSE(watch.judge(worker(2), 1e20, batch).median);
}

TEST_CASE("a worker's own norms do not count for itself") {
  auto watch = knowing({1, 1, 1});
  for (int i = 0; i < 100; ++i) {
    auto found = watch.judge(worker(0), 1000, batch);
    CHECK(found.median == 1.0);
    CHECK(found.is_outlier);
  }
  CHECK_FALSE(watch.judge(worker(1), 2, batch).is_outlier);
}

TEST_CASE("a median of 0 says nothing, and infinity is an outlier") {
  auto watch = knowing({0, 0, 0});
  CHECK_FALSE(watch.judge(worker(0), 5, batch).is_outlier);
  auto other = knowing({1, 1, 1});
  auto infinite = std::numeric_limits<double>::infinity();
  CHECK(other.judge(worker(0), infinite, batch).is_outlier);
  CHECK_FALSE(other.judge(worker(1), 1, batch).is_outlier);
}

TEST_CASE("the mean of fewer samples may have more noise") {
  auto watch = knowing({1, 1, 1});
  auto last = watch.judge(worker(0), 50, 1);
  CHECK(last.median == 8.0);
  CHECK_FALSE(last.is_outlier);
  CHECK(watch.judge(worker(0), 80.01, 1).is_outlier);
  auto more = knowing({1, 1, 1});
  CHECK(more.judge(worker(1), 10.01, 4 * batch).is_outlier);
}

TEST_CASE("when all gradients grow at once, each worker loses one at most") {
  for (uint32_t workers : {3u, 4u, 9u}) {
    auto watch = knowing(std::vector<double>(workers, 1));
    std::vector<int> refused(workers);
    for (int step = 0; step < 20; ++step)
      for (uint32_t i = 0; i < workers; ++i)
        refused[i] += watch.judge(worker(i), 500, batch).is_outlier;
    CHECK(refused.front() == 1);
    CHECK(*std::ranges::max_element(refused) == 1);
  }
}

TEST_CASE("who waits for a worker is known by what it waits with") {
  // All grow together, and only one is above the limit.
  auto watch = knowing({1, 1, 1, 1});
  for (uint32_t i = 0; i < 3; ++i)
    CHECK_FALSE(watch.judge(worker(i), 9, batch).is_outlier);
  CHECK_FALSE(watch.judge(worker(3), 11, batch).is_outlier);
}

TEST_CASE("one small norm of another worker does not count") {
  auto watch = knowing({1, 1, 1});
  watch.judge(worker(1), 0.01, batch);
  watch.judge(worker(2), 0.01, batch);
  CHECK(watch.judge(worker(0), 10, batch).median == 1.0);
}

TEST_CASE("honest noise is never refused in 10,000 steps, and a worker whose "
          "gradients are 1000 times as large always is") {
  for (uint64_t seed = 1; seed <= 12; ++seed) {
    INFO("seed " << seed);
    auto workers = static_cast<uint32_t>(3 + seed % 6);
    auto culprit = static_cast<uint32_t>(seed % workers);
    noise of{seed, 0.35};
    norm_watch watch{10};
    uint64_t wrong = 0;
    uint64_t missed = 0;
    for (int step = 0; step < 10'000; ++step) {
      // Over the run the norms of all fall to a thousandth, and wander.
      auto around = std::pow(1e-3, step / 1e4) * (2 + std::sin(step / 200.0));
      auto spoilt = step >= 100;
      for (uint32_t i = 0; i < workers; ++i) {
        auto scale = spoilt && i == culprit ? 1000 : 1;
        auto outlier =
          watch.judge(worker(i), scale * of.next(around), batch).is_outlier;
        wrong += scale == 1 && outlier;
        missed += scale == 1000 && !outlier;
      }
    }
    CHECK(wrong == 0);
    CHECK(missed == 0);
  }
}

TEST_CASE(
  "what all workers do together is not refused, at any speed of theirs") {
  for (uint64_t seed = 1; seed <= 12; ++seed) {
    INFO("seed " << seed);
    noise of{seed, 0.35};
    std::mt19937_64 turns{seed};
    norm_watch watch{10};
    uint64_t refused = 0;
    for (int push = 0; push < 20'000; ++push) {
      // Up by a factor of 10,000 and down again; each fourth push is of the
      // slow worker.
      auto around = std::pow(1e4, std::sin(push * 3.1416 / 20'000));
      auto who = turns() % 8 == 0 ? 3u : static_cast<uint32_t>(turns() % 3);
      refused += watch.judge(worker(who), of.next(around), batch).is_outlier;
    }
    CHECK(refused == 0);
  }
}
