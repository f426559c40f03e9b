// Connectors within one process.

#include "actors/connector.hpp"
#include "tests/support/doubles.hpp"

#include <c10/util/Exception.h>
#include <catch2/catch_test_macros.hpp>

using namespace troupe;
using namespace troupe::test;

TEST_CASE("a performer that cannot be made fails the run of its process, with "
          "one line") {
  stage house;
  auto lead = make_lead_stand_in(house);
  auto coordinator = make_coordinator_stand_in(house);
  local_connector_parts parts;
  parts.with = {lead.handle, coordinator.handle};
  std::string line;
  SECTION("a library throws") {
    parts.make = [](const connector_actor&) -> performer {
      TORCH_CHECK(false, "no such layer");
      return worker_actor{};
    };
    line = "no such layer";
  }
  SECTION("there is no memory") {
    parts.make = [](const connector_actor&) -> performer {
      throw std::bad_alloc{};
    };
    line = "this process gets no more memory; give it more (ulimit -v)";
  }
  SECTION("nobody knows what it is") {
    parts.make = [](const connector_actor&) -> performer {
      throw 7;
    };
    line = "an exception of an unknown kind";
  }
  house.make<connector_actor, local_connector_state>(std::move(parts));
  house.run();
  CHECK(lead->refused == std::vector{line});
}
