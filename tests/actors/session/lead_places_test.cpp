// Where a node looks for its lead.

#include "actors/session/lead_places.hpp"

#include <catch2/catch_test_macros.hpp>

using namespace troupe;

namespace {

config::address place(uint16_t port) {
  return {"10.0.0.1", port};
}

} // namespace

TEST_CASE("a lead that moves is looked for at all places in turn") {
  lead_places uut{place(1)};
  CHECK_FALSE(uut.next()); // There is no other place.
  CHECK(uut.current() == place(1));
  uut.found({place(2), place(3)});
  CHECK(uut.current() == place(1));
  CHECK(uut.next());
  CHECK(uut.current() == place(2));
  // It is there: who may lead next is known anew.
  uut.found({place(4)});
  CHECK(uut.current() == place(2));
  CHECK(uut.next());
  CHECK(uut.current() == place(4));
  CHECK_FALSE(uut.next());
  CHECK(uut.current() == place(2));
}

TEST_CASE("where a lead says that it is comes first, and once") {
  lead_places uut{place(1)};
  uut.found({place(2)});
  for (uint16_t port : {3, 2}) {
    uut.next();
    uut.add(place(port));
    CHECK(uut.current() == place(port));
  }
  CHECK(uut.next());
  CHECK(uut.next());
  CHECK_FALSE(uut.next());
}
