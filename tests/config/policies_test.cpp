// A policy with its parameters, however it is written.

#include "config/report/report.hpp"
#include "config/schema/policies.hpp"
#include "tests/config/support.hpp"

#include <catch2/catch_test_macros.hpp>

using namespace troupe;
using namespace troupe::config;
using namespace troupe::config::test;

namespace {

/// The policy, with all of its parameters.
std::string policy_of(const std::string& line,
                      const environment& variables = {}) {
  auto all = resolved_from(split(line), variables).values.policy;
  return to_string(facts_of(all).schema, arguments_of(all));
}

std::string policy_complaint(const std::string& line,
                             const environment& variables = {}) {
  return complaint([&] { resolved_from(split(line), variables); });
}

} // namespace

TEST_CASE("a policy is written as a call, or its parameters by their keys",
          "[policies]") {
  CHECK(policy_of("") == "sync");
  CHECK(policy_of("--policy ssp") == "ssp(staleness=3)");
  CHECK(policy_of("--policy ssp(staleness=5)") == "ssp(staleness=5)");
  CHECK(policy_of("--policy ssp --staleness 5") == "ssp(staleness=5)");
  CHECK(policy_of("--policy SSP()") == "ssp(staleness=3)");
  CHECK(policy_of("--set policy.name=backup(late=cancel,backup-workers=2)") ==
        "backup(backup-workers=2,late=cancel)");
  CHECK(policy_of("--policy ssp", {{"TROUPE_POLICY_STALENESS", "7"}}) ==
        "ssp(staleness=7)");
}

TEST_CASE("both forms in one source may say the same, and nothing else",
          "[policies]") {
  CHECK(policy_of("--policy ssp(staleness=5) --staleness 5") ==
        "ssp(staleness=5)");
  CHECK(policy_complaint("--policy ssp(staleness=5) --staleness 4") ==
        "--policy ssp(staleness=5) contradicts --staleness 4: give one of the "
        "two");
  CHECK(policy_complaint("--staleness 4 --policy ssp(staleness=5)") ==
        "--staleness 4 contradicts --policy ssp(staleness=5): give one of the "
        "two");
  scratch at;
  auto file =
    at.write("a.ini", "[policy]\nname = ssp(staleness=5)\nstaleness = 4\n");
  CHECK(policy_complaint("--config " + file) ==
        file + ":2: [policy] name = ssp(staleness=5) contradicts " + file +
          ":3: [policy] staleness = 4: give one of the two");
}

TEST_CASE("a stronger source overrides a parameter in either form",
          "[policies]") {
  scratch at;
  auto call = at.write("call.ini", "[policy]\nname = ssp(staleness=5)\n");
  auto keys = at.write("keys.ini", "[policy]\nname = ssp\nstaleness = 5\n");
  for (const auto& file : {call, keys}) {
    CHECK(policy_of("--config " + file) == "ssp(staleness=5)");
    CHECK(policy_of("--config " + file + " --staleness 2") ==
          "ssp(staleness=2)");
    CHECK(policy_of("--config " + file + " --policy ssp(staleness=1)") ==
          "ssp(staleness=1)");
    CHECK(policy_of("--config " + file + " --policy async") == "async");
  }
}

TEST_CASE("what a policy cannot have is one clear line", "[policies]") {
  CHECK(policy_complaint("--policy ssp(stale=5)") ==
        "--policy ssp(stale=5): ssp has no parameter 'stale', it has "
        "staleness");
  CHECK(policy_complaint("--policy sync(staleness=5)") ==
        "--policy sync(staleness=5): sync has no parameter 'staleness'");
  CHECK(policy_complaint("--policy ssp(5)") ==
        "--policy ssp(5): '5' must be NAME=VALUE");
  CHECK(policy_complaint("--policy ssp(staleness=-1)") ==
        "--policy ssp(staleness=-1): staleness of ssp must not be negative");
  CHECK(policy_complaint("--policy ssp(staleness=1,staleness=1)") ==
        "--policy ssp(staleness=1,staleness=1): staleness of ssp is given "
        "twice");
  CHECK(policy_complaint("--policy backup(late=never)") ==
        "--policy backup(late=never): late of backup must be one of drop, "
        "cancel");
  CHECK(policy_complaint("--policy ssp(staleness=1") ==
        "--policy ssp(staleness=1: must be ssp(...)");
  CHECK(policy_complaint("--policy spp(staleness=1)") ==
        "--policy spp(staleness=1): must be one of sync, backup, ssp, async, "
        "buffered, "
        "quorum; "
        "did you mean 'ssp'?");
}

TEST_CASE("a run's settings keep one spelling of its policy", "[policies]") {
  auto shown = [](const std::string& line) {
    return to_ini(resolved_from(split(line)).values);
  };
  CHECK(shown("--policy ssp(staleness=5)") ==
        shown("--policy ssp --staleness 5"));
}
