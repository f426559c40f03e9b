#include "actors/server/run_ending.hpp"
#include "tests/support/part_host.hpp"

#include <catch2/catch_test_macros.hpp>

using namespace troupe;
using namespace troupe::test;

namespace {

/// What the ending asks for, in its order.
struct asked {
  lead_double server;
  strings& what = server.said;
  run_ending uut{server};
};

} // namespace

TEST_CASE("a run ends when the last version is scored and saved") {
  for (auto scored_first : {true, false}) {
    asked on;
    on.uut.begin("completed", "reached max-steps");
    CHECK(on.what == strings{"stop: reached max-steps", "work"});
    scored_first ? on.uut.scored() : on.uut.saved();
    CHECK_FALSE(on.uut.is_closed());
    scored_first ? on.uut.saved() : on.uut.scored();
    CHECK(on.what.back() == "close");
    CHECK(on.uut.status() == "completed");
  }
}

TEST_CASE("weights that are the best are written before the end") {
  asked on;
  on.uut.begin("stopped", "SIGTERM");
  on.uut.saved();
  on.uut.saving();
  on.uut.scored();
  CHECK_FALSE(on.uut.is_closed());
  on.uut.saved();
  CHECK(on.uut.is_closed());
}

TEST_CASE("what fails ends at once, and gives up what is unwritten") {
  asked on;
  SECTION("before the end") {
    on.uut.fail("disk full");
    CHECK(on.what == strings{"stop: disk full", "give up", "close"});
  }
  SECTION("during the end") {
    on.uut.begin("completed", "done");
    on.uut.fail("disk full");
    CHECK(on.what == strings{"stop: done", "work", "give up", "close"});
  }
  CHECK(on.uut.has_failed());
  CHECK(on.uut.line() == "disk full");
}

TEST_CASE("a run closes once, and what comes later changes nothing") {
  asked on;
  on.uut.fail("first");
  auto before = on.what;
  on.uut.fail("second");
  on.uut.begin("completed", "done");
  on.uut.scored();
  on.uut.saved();
  CHECK(on.what == before);
  CHECK(on.uut.line() == "first");
  on.uut.fail_late("summary.json");
  CHECK(on.uut.line() == "first");
}

TEST_CASE("what fails while workers are told to stop asks for no last work") {
  asked on;
  on.server.when_stopped = [&] {
    on.uut.fail("log lost");
  };
  on.uut.begin("completed", "done");
  CHECK(on.what == strings{"stop: done", "give up", "close"});
  CHECK(on.uut.has_failed());
}
