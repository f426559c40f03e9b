// Session clients within one process.

#include "actors/session/session_client.hpp"
#include "tests/support/doubles.hpp"

#include <c10/util/Exception.h>
#include <catch2/catch_test_macros.hpp>

using namespace troupe;
using namespace troupe::test;

TEST_CASE(
  "a participant that cannot be made fails the run of its process, with "
  "one line") {
  actor_fixture actors;
  auto lead = make_lead_stand_in(actors);
  auto coordinator = make_coordinator_stand_in(actors);
  local_session_client_parts parts;
  parts.with = {lead.handle, coordinator.handle};
  std::string line;
  SECTION("a library throws") {
    parts.make = [](const session_client_actor&) -> participant {
      TORCH_CHECK(false, "no such layer");
      return worker_actor{};
    };
    line = "no such layer";
  }
  SECTION("there is no memory") {
    parts.make = [](const session_client_actor&) -> participant {
      throw std::bad_alloc{};
    };
    line = "this process gets no more memory; give it more (ulimit -v)";
  }
  SECTION("nobody knows what it is") {
    parts.make = [](const session_client_actor&) -> participant {
      throw 7;
    };
    line = "an exception of an unknown kind";
  }
  actors.make<session_client_actor, local_session_client_state>(
    std::move(parts));
  actors.run();
  CHECK(lead->refused == std::vector{line});
}
