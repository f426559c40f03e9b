// What every policy in the registry must do. A new policy is tested here
// without a line of its own. One more, `twins` of the tests, decides on several
// updates at once.

#include "config/text/failure.hpp"
#include "config/text/value.hpp"
#include "tests/policies/conformance.hpp"

#include <catch2/catch_test_macros.hpp>

using namespace troupe;
using namespace troupe::policies;

TEST_CASE("every policy keeps its promises in any history") {
  for (const auto& name : config::policy_names())
    for (uint64_t seed = 0; seed < 150; ++seed) {
      INFO("policy " << name << ", seed " << seed);
      CHECK_NOTHROW(test::conform(name, seed));
    }
}

TEST_CASE("a policy is known by its name") {
  for (const auto& name : config::policy_names())
    CHECK(make_policy(read_spec(name, 4)) != nullptr);
  try {
    make_policy({"snyc", 4});
    FAIL("made a policy that does not exist");
  } catch (const usage_error& problem) {
    CHECK(std::string{problem.what()} ==
          "policy snyc: must be one of sync, backup, ssp, async, buffered, "
          "quorum, twins; did you mean 'sync'?");
  }
}

TEST_CASE("a policy that cannot be with so many workers is not made") {
  CHECK_THROWS_AS(make_policy(read_spec("backup(backup-workers=3)", 3)),
                  usage_error);
  CHECK_NOTHROW(make_policy(read_spec("backup(backup-workers=2)", 3)));
}

TEST_CASE(
  "a policy is read with its parameters, and what is no parameter of it "
  "is refused") {
  auto spec = read_spec("ssp(staleness=7)", 2);
  CHECK(spec.parameters.whole("staleness") == 7);
  CHECK(read_spec("ssp", 2).parameters.whole("staleness") == 3);
  CHECK_THROWS_AS(read_spec("ssp(stale=7)", 2), config::bad_value);
  CHECK_THROWS_AS(read_spec("sync(staleness=7)", 2), config::bad_value);
}
