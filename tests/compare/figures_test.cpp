#include "apps/lab/compare/figures.hpp"

#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>

#include <algorithm>

using namespace troupe::app;

namespace {

contender_figures three_runs() {
  contender_figures out;
  out.label = "ssp:3";
  for (auto x : {1.0, 2.0, 3.0}) {
    run_figures run;
    run.label = out.label;
    run.seconds_per_step = x;
    if (x < 3)
      run.seconds_to_target = 10 * x;
    out.runs.push_back(run);
  }
  return out;
}

} // namespace

TEST_CASE("the spread of values is mean and sample deviation") {
  CHECK(spread_of({}).mean == 0);
  CHECK(spread_of({5}).mean == 5);
  CHECK(spread_of({5}).deviation == 0);
  auto found = spread_of({1, 2, 3, 4});
  CHECK(found.mean == Catch::Approx(2.5));
  CHECK(found.deviation == Catch::Approx(1.2909944));
}

TEST_CASE("runs that did not reach the target are counted apart") {
  auto all = three_runs();
  CHECK(all.reached() == 2);
  CHECK(all.of([](const auto& x) { return x.seconds_to_target; }).mean == 15);
  comparison report{"trainer_node compare", 0.95, {all}};
  auto table = to_table(report);
  CHECK(table.find("s to 0.95") != std::string::npos);
  CHECK(table.find("15.0 ± 7.1 (2 of 3)") != std::string::npos);
}

TEST_CASE("the CSV has a line a run, with nothing where there is nothing") {
  comparison report{"", 0.95, {three_runs()}};
  auto text = to_csv(report);
  CHECK(std::count(text.begin(), text.end(), '\n') == 4);
  CHECK(text.find("\nssp:3,0,0,0,10,1,") != std::string::npos);
  CHECK(text.find("\nssp:3,0,0,0,,3,") != std::string::npos);
}
