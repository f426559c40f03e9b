#include "apps/lab/compare/progress.hpp"

#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>

using namespace troupe::app;

namespace {

contender_figures runs_of(std::initializer_list<double> wall_seconds) {
  contender_figures out;
  for (auto x : wall_seconds)
    out.runs.emplace_back().wall_seconds = x;
  return out;
}

} // namespace

TEST_CASE("the time left is that of a policy's own runs, else of all runs") {
  comparison all;
  all.contenders = {runs_of({10, 20, 30}), runs_of({4})};
  // Two more of 4 s, and three of which only the mean of all is known.
  CHECK(seconds_left(all, 3, 3) == Catch::Approx(2 * 4 + 3 * 16));
  CHECK(seconds_left(all, 2, 3) == Catch::Approx(2 * 4));
  all.contenders = {runs_of({10, 20}), runs_of({3, 5})};
  CHECK(seconds_left(all, 2, 2) == 0);
}

TEST_CASE("a time is told in the unit in which it has two digits or three") {
  CHECK(in_words(0) == "0 s");
  CHECK(in_words(0.2) == "1 s");
  CHECK(in_words(99) == "99 s");
  CHECK(in_words(100) == "2 min");
  CHECK(in_words(59 * 60) == "59 min");
  CHECK(in_words(9000) == "2.5 h");
}
