// Draws of the simulation's own distributions are recognised, and their
// parameters found.

#include "apps/lab/calibrate/families.hpp"
#include "apps/lab/calibrate/fit.hpp"
#include "apps/lab/simulation/durations.hpp"

#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <cmath>

using namespace troupe;
using namespace troupe::app;

namespace {

using times = std::map<uint32_t, std::vector<double>>;

constexpr uint32_t workers = 8;
constexpr uint64_t draws = 250; // of each

times draw(const std::string& name, uint64_t seed) {
  simulation::durations from{config::parse_distribution(name), seed};
  times out;
  for (uint32_t who = 0; who < workers; ++who)
    for (uint64_t n = 0; n < draws; ++n) // As an event log has them: in ns.
      out[who].push_back(std::round(from.draw(worker_id{who}, n) * 1e9) * 1e-9);
  return out;
}

/// By what parts of the number `found` may be off; 0.1: a tenth.
struct tolerance {
  std::string name;
  double share;
};

void check_close(const config::distribution& found,
                 const config::distribution& wanted,
                 const std::vector<tolerance>& allowed) {
  REQUIRE(found.name == wanted.name);
  for (const auto& [name, value] : wanted.numbers) {
    double share = 0;
    for (const auto& one : allowed)
      if (one.name == name)
        share = one.share;
    INFO(name << " is " << value << ", found " << found.numbers.at(name));
    CHECK(std::abs(found.numbers.at(name) - value) <=
          share * std::max(value, 0.1) + 1e-12);
  }
  REQUIRE((found.base == nullptr) == (wanted.base == nullptr));
  if (wanted.base)
    check_close(*found.base, *wanted.base, allowed);
}

void check_recovery(const std::string& title,
                    const std::vector<tolerance>& allowed) {
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    auto all = fit_compute_times(draw(title, seed));
    INFO(title << ", seed " << seed << ": " << all.front().compute_time);
    check_close(config::parse_distribution(all.front().compute_time),
                config::parse_distribution(title), allowed);
    // Chance takes one in twenty farther than 1.36 / sqrt(n).
    CHECK(all.front().distance < 2 / std::sqrt(double{workers} * draws));
    for (const auto& one : all) { // They can all be used.
      INFO(one.compute_time);
      CHECK_NOTHROW(config::parse_distribution(one.compute_time));
    }
  }
}

} // namespace

TEST_CASE("a constant is recognised") {
  check_recovery("constant(1)", {});
  check_recovery("constant(0.0125)", {});
}

TEST_CASE("a gamma is recognised, its mean and cv found") {
  check_recovery("gamma(mean=1,cv=0.1)", {{"mean", 0.01}, {"cv", 0.06}});
  check_recovery("gamma(mean=0.02,cv=0.5)", {{"mean", 0.05}, {"cv", 0.06}});
  check_recovery("gamma(mean=3,cv=1.5)", {{"mean", 0.12}, {"cv", 0.08}});
}

TEST_CASE("an exponential is recognised, with and without an offset") {
  check_recovery("exp(offset=0.5,mean=0.5)",
                 {{"offset", 0.01}, {"mean", 0.08}});
  check_recovery("exp(offset=0.01,mean=0.1)",
                 {{"offset", 0.01}, {"mean", 0.08}});
  check_recovery("exp(offset=0,mean=2)", {{"mean", 0.08}});
}

TEST_CASE("a Pareto is recognised, its tail and mean found") {
  check_recovery("pareto(alpha=2.5,mean=1)", {{"alpha", 0.08}, {"mean", 0.05}});
  check_recovery("pareto(alpha=1.5,mean=0.3)",
                 {{"alpha", 0.08}, {"mean", 0.25}});
}

TEST_CASE("a transient slow-down is recognised") {
  check_recovery("transient(base=gamma(mean=1,cv=0.1),p=0.05,factor=5)",
                 {{"mean", 0.02}, {"cv", 0.08}, {"p", 0.4}, {"factor", 0.05}});
  check_recovery("transient(base=gamma(mean=0.1,cv=0.3),p=0.2,factor=10)",
                 {{"mean", 0.03}, {"cv", 0.1}, {"p", 0.2}, {"factor", 0.06}});
  check_recovery("transient(base=constant(1),p=0.1,factor=5)",
                 {{"value", 1e-4}, {"p", 0.3}, {"factor", 1e-4}});
}

TEST_CASE("a worker that is always slow is recognised under every base") {
  check_recovery("slow(base=constant(1),worker=3,factor=4)",
                 {{"value", 1e-4}, {"factor", 1e-4}});
  check_recovery("slow(base=gamma(mean=1,cv=0.2),worker=0,factor=3)",
                 {{"mean", 0.02}, {"cv", 0.08}, {"factor", 0.06}});
  check_recovery("slow(base=exp(offset=0.5,mean=0.5),worker=5,factor=2)",
                 {{"offset", 0.1}, {"mean", 0.1}, {"factor", 0.1}});
  check_recovery(
    "slow(base=transient(base=gamma(mean=1,cv=0.1),p=0.1,factor=5),worker=7,"
    "factor=3)",
    {{"mean", 0.15}, {"cv", 0.15}, {"p", 0.3}, {"factor", 0.15}});
}

TEST_CASE("two slow workers are told apart") {
  check_recovery("slow(base=slow(base=gamma(mean=1,cv=0.1),worker=6,factor=5),"
                 "worker=2,factor=2)",
                 {{"mean", 0.02}, {"cv", 0.06}, {"factor", 0.04}});
}

TEST_CASE("what is none of them is said to be off") {
  times two_kinds; // Half of the workers alternate between fast and slow.
  for (uint32_t who = 0; who < 4; ++who)
    for (int n = 0; n < 100; ++n)
      two_kinds[who].push_back(1 + 0.5 * std::sin(n) +
                               (n % 3 == 0 ? 2.0 * (1 + n % 2) : 0));
  auto all = fit_compute_times(two_kinds);
  CHECK(all.front().distance > 1.358 / std::sqrt(400.0));
}

TEST_CASE("a quantile lies between its neighbours") {
  CHECK(quantile({1, 2, 3, 4, 5}, 0.5) == 3);
  CHECK(quantile({1, 2}, 0.25) == 1.25);
  CHECK(quantile({7}, 0.9) == 7);
}
