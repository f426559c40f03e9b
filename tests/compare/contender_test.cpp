#include "apps/lab/compare/contender.hpp"
#include "config/text/failure.hpp"

#include <catch2/catch_test_macros.hpp>

using namespace troupe;
using namespace troupe::app;

namespace {

using strings = std::vector<std::string>;

std::string complaint(const strings& arguments) try {
  parse_comparison(arguments);
  return "";
} catch (const usage_error& why) {
  return why.what();
}

} // namespace

TEST_CASE("a contender is a policy with its arguments") {
  auto all = parse_contenders("sync, backup:2:cancel,ssp:0,async");
  REQUIRE(all.size() == 4);
  CHECK(all[0].flags == strings{"--policy", "sync"});
  CHECK(all[1].label == "backup:2:cancel");
  CHECK(all[1].flags == strings{"--policy", "backup", "--backup-workers", "2",
                                "--late", "cancel"});
  CHECK(all[2].flags == strings{"--policy", "ssp", "--staleness", "0"});
  CHECK(all[3].policy == "async");
}

TEST_CASE("a contender may have the name that the field uses") {
  auto all = parse_contenders("BSP,asp,SSP:1");
  CHECK(all[0].label == "BSP");
  CHECK(all[0].flags == strings{"--policy", "sync"});
  CHECK(all[1].policy == "async");
  CHECK(all[2].flags == strings{"--policy", "ssp", "--staleness", "1"});
}

TEST_CASE("a contender may have settings of its own") {
  auto all = parse_contenders("sync/lr=0.1/momentum=0");
  CHECK(all[0].flags ==
        strings{"--policy", "sync", "--lr", "0.1", "--momentum", "0"});
}

TEST_CASE("compare keeps its flags and passes the others on") {
  auto all = parse_comparison({"--seeds=3", "--workers", "8", "--policies",
                               "sync,async", "--train-dir", "x", "--lr=0.1"});
  CHECK(all.seeds == 3);
  CHECK(all.contenders.size() == 2);
  CHECK(all.folder == "x");
  CHECK(all.flags == strings{"--workers", "8", "--lr=0.1"});
  CHECK(parse_comparison({}).contenders.size() == 4);
}

TEST_CASE("what cannot be compared is one clear line") {
  CHECK(
    complaint({"--policies", "sinc"}) ==
    "--policies: 'sinc' is none of sync, backup:B:drop|cancel, ssp:S, async, "
    "buffered:K, quorum:K:S");
  CHECK(complaint({"--policies", "sync:1"}) ==
        "--policies: 'sync:1' has a ':' too many");
  CHECK(complaint({"--policies", "sync,sync"}) ==
        "--policies: 'sync' is given twice");
  CHECK(complaint({"--policies", "sync/lr"}) ==
        "--policies: 'sync/lr' must be POLICY or POLICY/KEY=VALUE/...");
  CHECK(complaint({"--seeds", "0"}) == "--seeds 0: must be at least 1");
  CHECK(complaint({"--seeds"}) == "--seeds needs a value");
  CHECK(complaint({"--seed", "3"}) ==
        "--seed: compare sets it for each run; give --policies and --seeds");
}

TEST_CASE("a contender may be written as a call, whose commas are its own") {
  auto all =
    parse_contenders("ssp(staleness=2),backup(backup-workers=2,"
                     "late=cancel)/lr-schedule=step(every=3,factor=1)");
  REQUIRE(all.size() == 2);
  CHECK(all[0].policy == "ssp");
  CHECK(all[0].flags == strings{"--policy", "ssp(staleness=2)"});
  CHECK(all[1].flags == strings{"--policy",
                                "backup(backup-workers=2,late=cancel)",
                                "--lr-schedule", "step(every=3,factor=1)"});
}
