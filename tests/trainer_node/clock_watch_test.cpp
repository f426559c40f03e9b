#include "apps/startup/clock_watch.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

using Catch::Matchers::ContainsSubstring;
using troupe::app::clock_watch;

namespace {

clock_watch::reading at(double date, double passed) {
  return {clock_watch::seconds{date}, clock_watch::seconds{passed}};
}

} // namespace

TEST_CASE("a date that jumps is a line, once") {
  clock_watch watch{at(1000, 50)};
  CHECK(!watch.look(at(1005, 55)));
  CHECK_THAT(watch.look(at(4610, 60)).value(),
             ContainsSubstring("jumped 3600 s ahead"));
  CHECK(!watch.look(at(4615, 65)));
  CHECK_THAT(watch.look(at(1020, 70)).value(),
             ContainsSubstring("jumped 3600 s back"));
  CHECK(!watch.look(at(1025, 75)));
}

TEST_CASE("a date that is corrected a little is no jump") {
  clock_watch watch{at(1000, 50)};
  CHECK(!watch.look(at(1064, 55)));
  CHECK(!watch.look(at(1010, 60)));
}

TEST_CASE("a machine that sleeps has no jump of its date") {
  clock_watch watch{at(1000, 50)};
  CHECK(!watch.look(at(8205, 7255)));
}
