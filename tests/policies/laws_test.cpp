// Laws of waiting that hold for every distribution of compute times, and the
// time per step that an independent simulator found for some of them.

#include "tests/support/cluster_simulation.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_floating_point.hpp>

#include <algorithm>
#include <numeric>

using namespace troupe;
using namespace troupe::test;
using Catch::Matchers::WithinAbs;
using Catch::Matchers::WithinRel;
using policies::policy_spec;

namespace {

policy_spec cluster_of(uint32_t workers, const char* name) {
  return policies::read_spec(name, workers);
}

policy_spec backup_of(uint32_t workers, uint32_t backups,
                      const std::string& late) {
  return policies::read_spec(
    "backup(backup-workers=" + std::to_string(backups) + ",late=" + late + ")",
    workers);
}

policy_spec ssp_of(uint32_t workers, uint32_t staleness) {
  return policies::read_spec("ssp(staleness=" + std::to_string(staleness) + ")",
                             workers);
}

/// Accepted gradients of `who` among those of its cluster.
double share(const cluster_figures& figures, uint32_t who) {
  return static_cast<double>(figures.applied_of[who]) /
         static_cast<double>(figures.applied);
}

const compute_time skewed = exponential_time(0.5, 0.5);
const compute_time transient = transient_time(gamma_time(1, 0.1), 0.05, 5);
const compute_time one_slow = slow_time(gamma_time(1, 0.1), worker_id{0}, 4);

} // namespace

TEST_CASE("async: mean staleness is N-1 for any compute time") {
  for (auto& takes : {skewed, transient, one_slow, constant_time(1)})
    for (uint32_t workers : {1, 2, 5, 16}) {
      auto found =
        simulate_cluster(cluster_of(workers, "async"), takes, 20'000);
      CHECK_THAT(found.mean_staleness, WithinAbs(workers - 1, 0.01 * workers));
    }
}

TEST_CASE("ssp: staleness never exceeds (2s+1)(N-1)") {
  for (auto& takes : {skewed, transient, one_slow})
    for (uint32_t workers : {2, 5, 16})
      for (uint32_t s : {0, 1, 3}) {
        auto found = simulate_cluster(ssp_of(workers, s), takes, 5'000);
        CHECK(found.max_staleness <= (2 * s + 1) * (workers - 1));
      }
}

TEST_CASE("ssp: one slow worker sets the pace whatever s is") {
  for (uint32_t s : {0, 1, 3, 8}) {
    auto found = simulate_cluster(ssp_of(8, s), one_slow, 20'000);
    CHECK_THAT(found.seconds_per_gradients(8), WithinRel(4.0, 0.03));
  }
}

TEST_CASE("sync and backup: gradients are never stale") {
  for (auto late : {"drop", "cancel"})
    CHECK(
      simulate_cluster(backup_of(5, 2, late), skewed, 2'000).max_staleness ==
      0);
  CHECK(simulate_cluster(cluster_of(5, "sync"), skewed, 2'000).max_staleness ==
        0);
}

TEST_CASE("sync: a step takes as long as its slowest worker") {
  auto found = simulate_cluster(cluster_of(8, "sync"), constant_time(2), 100);
  CHECK(found.seconds_per_step() == 2);
  CHECK(found.applied == 800);
}

TEST_CASE("backup starves a steadily slower worker") {
  for (auto late : {"drop", "cancel"}) {
    auto found = simulate_cluster(backup_of(8, 1, late), one_slow, 5'000);
    CHECK(share(found, 0) < 0.001);
    CHECK_THAT(share(found, 1), WithinRel(1.0 / 7, 0.01));
  }
  auto fair = simulate_cluster(ssp_of(8, 3), one_slow, 5'000);
  CHECK_THAT(share(fair, 0), WithinRel(1.0 / 8, 0.01));
}

// Each worker has a pace of its own and two pauses, after which it is out of
// phase with the others, as after a death.
TEST_CASE("backup: each worker that is not among the b slowest takes part") {
  constexpr uint64_t steps = 80;
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    random_engine random{seed};
    auto n = static_cast<uint32_t>(2 + random() % 7);
    auto b = static_cast<uint32_t>(random() % n);
    std::vector<double> paces(n);
    for (auto& pace : paces)
      pace = 1 + 0.3 * std::uniform_real_distribution{}(random);
    std::vector<uint64_t> taken(n);
    auto pausing = [&](worker_id who, random_engine& with) {
      auto rests = taken[who.value]++ % 25 == 0 && taken[who.value] < 50;
      return paces[who.value] +
             (rests ? 5 * std::uniform_real_distribution{}(with) : 0);
    };
    auto late = random() % 2 == 0 ? "drop" : "cancel";
    auto found = simulate_cluster(backup_of(n, b, late), pausing, steps, seed);
    for (uint32_t who = 0; who < n; ++who) {
      INFO(n << " workers, b = " << b << ", " << late << ", seed " << seed
             << ": worker " << who);
      auto faster = std::ranges::count_if(
        paces, [&](double pace) { return pace < paces[who]; });
      CHECK((faster >= n - b || found.applied_of[who] >= steps - 25));
    }
  }
}

TEST_CASE("backup with b = 0 makes the steps of sync") {
  auto sync = simulate_cluster(cluster_of(6, "sync"), skewed, 500);
  for (auto late : {"drop", "cancel"}) {
    auto backup = simulate_cluster(backup_of(6, 0, late), skewed, 500);
    CHECK(backup.seconds == sync.seconds);
    CHECK(backup.dropped == 0);
  }
}

TEST_CASE("time per step of 16 workers agrees with the independent simulator") {
  constexpr uint64_t steps = 6'000;
  constexpr uint32_t n = 16;
  struct row {
    const char* name;
    compute_time takes;
    double sync;
    std::vector<std::pair<double, double>> backup; // b = 1, 2: drop, cancel
    double async;
    std::vector<double> ssp; // s = 1, 3, 8
  };
  const row table[] = {
    {"exp(offset=0.5,mean=0.5)",
     skewed,
     2.19,
     {{1.77, 1.69}, {1.56, 1.44}},
     1.00,
     {1.40, 1.15, 1.06}},
    {"transient(base=gamma(mean=1,cv=0.1),p=0.05,factor=5)",
     transient,
     3.38,
     {{2.31, 1.85}, {1.79, 1.28}},
     1.20,
     {2.27, 1.63, 1.36}},
    {"slow(base=gamma(mean=1,cv=0.1),worker=0,factor=4)",
     one_slow,
     4.00,
     {{1.18, 1.18}, {1.13, 1.13}},
     1.05,
     {4.00, 4.00, 4.00}},
  };
  auto per_step = [&](const policy_spec& spec, const compute_time& takes) {
    return simulate_cluster(spec, takes, steps).seconds_per_step();
  };
  // One gradient is one step of these policies.
  auto per_16 = [&](const policy_spec& spec, const compute_time& takes) {
    return simulate_cluster(spec, takes, steps * n).seconds_per_gradients(n);
  };
  for (auto& x : table) {
    INFO(x.name);
    CHECK_THAT(per_step(cluster_of(n, "sync"), x.takes),
               WithinRel(x.sync, 0.03));
    for (uint32_t b : {1, 2}) {
      INFO("b = " << b);
      auto [drop, cancel] = x.backup[b - 1];
      CHECK_THAT(per_step(backup_of(n, b, "drop"), x.takes),
                 WithinRel(drop, 0.03));
      CHECK_THAT(per_step(backup_of(n, b, "cancel"), x.takes),
                 WithinRel(cancel, 0.03));
    }
    CHECK_THAT(per_16(cluster_of(n, "async"), x.takes),
               WithinRel(x.async, 0.03));
    for (size_t i = 0; i < x.ssp.size(); ++i) {
      const uint32_t s[] = {1, 3, 8};
      INFO("s = " << s[i]);
      CHECK_THAT(per_16(ssp_of(n, s[i]), x.takes), WithinRel(x.ssp[i], 0.03));
    }
  }
}
