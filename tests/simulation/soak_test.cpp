// Thousands of random fault schedules over all policies: no promise is broken,
// and a replay of each life decides the same.
// TROUPE_SOAK_RUNS says how many, TROUPE_SOAK_FIRST which is the first.

#include "tests/simulation/soak.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tests/support/wished.hpp"

#include <catch2/catch_test_macros.hpp>

#include <cstdio>

using namespace troupe;
using namespace troupe::test;

namespace {

constexpr uint64_t usual_runs = 700;
constexpr uint64_t twin_runs = 100;

/// After so many failures the test stops.
constexpr int enough = 5;

void add(simulation::fault_counts& sum, const simulation::fault_counts& x) {
  for (size_t i = 0; i < sum.enacted.size(); ++i)
    sum.enacted[i] += x.enacted[i];
  sum.updates += x.updates;
  sum.rolled_back += x.rolled_back;
  sum.stale += x.stale;
  sum.duplicates += x.duplicates;
  sum.returns += x.returns;
  sum.hung += x.hung;
  sum.again += x.again;
  sum.fences += x.fences;
}

void show(const simulation::fault_counts& x) {
  for (size_t i = 0; i < x.enacted.size(); ++i)
    std::printf(
      "%-14s %8llu\n",
      std::string{to_string(static_cast<config::fault_kind>(i))}.c_str(),
      static_cast<unsigned long long>(x.enacted[i]));
  std::printf(
    "updates %llu, roll-backs %llu, returns %llu, refused: stale "
    "%llu, duplicates %llu; hung %llu, leases out twice %llu, changes "
    "of the policy %llu\n",
    static_cast<unsigned long long>(x.updates),
    static_cast<unsigned long long>(x.rolled_back),
    static_cast<unsigned long long>(x.returns),
    static_cast<unsigned long long>(x.stale),
    static_cast<unsigned long long>(x.duplicates),
    static_cast<unsigned long long>(x.hung),
    static_cast<unsigned long long>(x.again),
    static_cast<unsigned long long>(x.fences));
}

} // namespace

TEST_CASE("nor by a policy that decides on several updates at once") {
  testing::temporary_folder folder{soak_folder()};
  for (uint64_t number = 1; number <= twin_runs; ++number) {
    auto arguments = soak_arguments(number);
    arguments.insert(arguments.end(), {"--set", "policy.name=twins"});
    auto found = soak_once(arguments, folder / "run");
    INFO("run " << number << ": " << found.how.line);
    CHECK(found.how.status == 0);
  }
}

TEST_CASE("no promise is broken under random faults") {
  testing::temporary_folder folder{soak_folder()};
  auto runs = testing::wished("TROUPE_SOAK_RUNS", usual_runs);
  auto first = testing::wished("TROUPE_SOAK_FIRST", 1);
  simulation::fault_counts sum;
  int failed = 0;
  for (auto number = first; number < first + runs && failed < enough;
       ++number) {
    auto found =
      soak_once(soak_arguments(number), folder / "run", is_replayed(number));
    add(sum, found.counts);
    if (found.how.status == 0)
      continue;
    ++failed;
    UNSCOPED_INFO("run " << number << ": " << found.how.line);
    std::printf("run %llu: %s\n", static_cast<unsigned long long>(number),
                found.how.line.c_str());
  }
  show(sum);
  CHECK(failed == 0);
  // With fewer faults of a kind the runs would prove little; usual are some
  // three times as many.
  for (auto count : sum.enacted)
    CHECK(count >= runs / 4);
  CHECK(sum.rolled_back >= runs / 20);
  CHECK(sum.returns >= runs / 4);
  CHECK(sum.stale >= runs / 20);
  CHECK(sum.duplicates >= runs / 4);
  CHECK(sum.hung >= runs / 8);
  CHECK(sum.again >= runs / 500);
  CHECK(sum.fences >= runs / 20);
}
