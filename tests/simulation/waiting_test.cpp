// How long the policies wait, measured on the actors themselves in virtual
// time. The expected figures come from an independent simulator (16 workers, no
// network cost).

#include "tests/simulation/virtual_test.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_floating_point.hpp>

using namespace troupe::test;
using Catch::Matchers::WithinAbs;
using Catch::Matchers::WithinRel;

namespace {

using strings = std::vector<std::string>;

constexpr const char* skewed = "exp(offset=0.5,mean=0.5)";
constexpr const char* transient =
  "transient(base=gamma(mean=1,cv=0.1),p=0.05,factor=5)";
constexpr const char* one_slow =
  "slow(base=gamma(mean=1,cv=0.1),worker=0,factor=4)";

/// Waiting alone: nothing is computed.
virtual_outcome wait(const char* takes, int workers, uint64_t steps,
                     const strings& policy) {
  strings all{"--gradients",    "none",
              "--compute-time", takes,
              "--workers",      std::to_string(workers),
              "--max-steps",    std::to_string(steps)};
  all.insert(all.end(), policy.begin(), policy.end());
  return run(all);
}

constexpr int n = 16;
constexpr uint64_t steps = 4000;

double per_step(const char* takes, const strings& policy) {
  return wait(takes, n, steps, policy).seconds_per_step();
}

/// One gradient is one step of these policies.
double per_16(const char* takes, const strings& policy) {
  return wait(takes, n, steps * n, policy).seconds_per(n);
}

struct row {
  const char* takes;
  double sync;
  double backup[2][2]; ///< b = 1, 2: drop, cancel
  double async;
  double ssp[3]; ///< s = 1, 3, 8
};

void check(const row& x) {
  INFO(x.takes);
  CHECK_THAT(per_step(x.takes, {"--policy", "sync"}), WithinRel(x.sync, 0.03));
  for (auto b : {1, 2})
    for (auto late : {0, 1}) {
      INFO("backup, b = " << b << (late ? ", cancel" : ", drop"));
      CHECK_THAT(per_step(x.takes, {"--policy", "backup", "--backup-workers",
                                    std::to_string(b), "--late",
                                    late ? "cancel" : "drop"}),
                 WithinRel(x.backup[b - 1][late], 0.03));
    }
  CHECK_THAT(per_16(x.takes, {"--policy", "async"}), WithinRel(x.async, 0.03));
  const char* s[] = {"1", "3", "8"};
  for (auto i : {0, 1, 2}) {
    INFO("ssp, s = " << s[i]);
    CHECK_THAT(per_16(x.takes, {"--policy", "ssp", "--staleness", s[i]}),
               WithinRel(x.ssp[i], 0.03));
  }
}

} // namespace

TEST_CASE("16 workers wait as the independent simulator says: exponential") {
  check({skewed, 2.19, {{1.77, 1.69}, {1.56, 1.44}}, 1.00, {1.40, 1.15, 1.06}});
}

TEST_CASE("16 workers wait as the independent simulator says: transient") {
  check(
    {transient, 3.38, {{2.31, 1.85}, {1.79, 1.28}}, 1.20, {2.27, 1.63, 1.36}});
}

TEST_CASE("16 workers wait as the independent simulator says: one slow") {
  check(
    {one_slow, 4.00, {{1.18, 1.18}, {1.13, 1.13}}, 1.05, {4.00, 4.00, 4.00}});
}

TEST_CASE("async: mean staleness is N-1 for any compute time") {
  for (auto takes : {skewed, transient, one_slow, "constant(1)"})
    for (int workers : {1, 2, 5, 16}) {
      auto found = wait(takes, workers, 20'000, {"--policy", "async"});
      CHECK_THAT(found.summary["staleness"]["mean"].get<double>(),
                 WithinAbs(workers - 1, 0.01 * workers));
    }
}

TEST_CASE("ssp: staleness never exceeds (2s+1)(N-1)") {
  for (auto takes : {skewed, transient, one_slow})
    for (int workers : {2, 5, 16})
      for (int s : {0, 1, 3}) {
        auto found =
          wait(takes, workers, 5000,
               {"--policy", "ssp", "--staleness", std::to_string(s)});
        CHECK(found.summary["staleness"]["max"].get<int>() <=
              (2 * s + 1) * (workers - 1));
      }
}

TEST_CASE("backup starves a steadily slower worker, ssp does not") {
  for (auto late : {"drop", "cancel"}) {
    auto found =
      wait(one_slow, 8, 5000, {"--policy", "backup", "--late", late});
    auto share = found.summary["accepted_share"][0];
    CHECK((share.is_null() || share.get<double>() < 0.001));
  }
  auto fair = wait(one_slow, 8, 5000, {"--policy", "ssp"});
  CHECK(fair.summary["accepted_share"][0] == 1);
}

TEST_CASE("a link's latency and rate lengthen every step") {
  // LeNet has 1,724,320 bytes: a second each way at this rate.
  auto found = wait("constant(1)", 4, 10,
                    {"--link-rate", "1724320", "--link-latency", "0.25"});
  // Of a step: compute, gradient up, weights down. The last ends with the
  // arrival of the gradients; the first weights count only from their use.
  CHECK_THAT(found.seconds(), WithinAbs(10 * 3.5 - 1.25, 1e-6));
  CHECK(found.summary["transport"]["worker-0"] == "simulated");
}
