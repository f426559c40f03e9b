#include "actors/recording/kept_scores.hpp"
#include "config/text/failure.hpp"
#include "tests/support/temporary_folder.hpp"

#include <catch2/catch_test_macros.hpp>
#include <nlohmann/json.hpp>

#include <sstream>
#include <utility>
#include <vector>

using namespace troupe;
using namespace troupe::recording;
using nlohmann::json;
using testing::slurp;
using testing::spill;
using testing::temporary_folder;

namespace {

start_record run_named(std::string_view id) {
  start_record out;
  out.run_id = id;
  return out;
}

evaluation_record score_at(uint64_t step, double accuracy, double loss) {
  return {step, 0, 10, {{"loss", loss}, {"accuracy", accuracy}}};
}

std::vector<json> lines_in(const temporary_folder& folder) {
  std::vector<json> out;
  std::istringstream in{slurp(folder / kept_scores::file)};
  for (std::string line; std::getline(in, line);)
    out.push_back(json::parse(line));
  return out;
}

} // namespace

TEST_CASE("each score is kept, with the best one so far") {
  temporary_folder folder;
  kept_scores uut{folder.path(), run_named("r1"), {}};
  uut.add(score_at(10, 0.5, 2));
  uut.add(score_at(20, 0.75, 1));
  uut.add(score_at(30, 0.75, 0.5));
  auto lines = lines_in(folder);
  REQUIRE(lines.size() == 4);
  CHECK(lines[0]["run_id"] == "r1");
  CHECK(lines[1]["best"] ==
        json({{"step", 10}, {"metric", "accuracy"}, {"value", 0.5}}));
  CHECK(lines[3]["accuracy"] == 0.75);
  CHECK(lines[3]["best"]["step"] == 20);
}

TEST_CASE("scores of the same run go on, whatever the end of the file is") {
  temporary_folder folder;
  auto lowest = config::parse_order("min(loss)");
  {
    kept_scores uut{folder.path(), run_named("r1"), lowest};
    CHECK_FALSE(uut.last());
    uut.add(score_at(10, 0.9, 0.5));
  }
  auto file = folder / kept_scores::file;
  spill(file, slurp(file) + "{\"kind\":\"evaluation\",\"st");
  {
    kept_scores uut{folder.path(), run_named("r1"), lowest};
    CHECK(uut.last() == 10u);
    uut.add(score_at(20, 0.95, 0.75));
  }
  auto lines = lines_in(folder);
  REQUIRE(lines.size() == 3);
  CHECK(lines[2]["best"]["step"] == 10);
  // Another run has another best.
  kept_scores uut{folder.path(), run_named("r2"), lowest};
  CHECK_FALSE(uut.last());
  uut.add(score_at(5, 0.1, 3));
  lines = lines_in(folder);
  REQUIRE(lines.size() == 5);
  CHECK(lines[3]["run_id"] == "r2");
  CHECK(lines[4]["best"]["step"] == 5);
}

TEST_CASE("scores that cannot be kept are one line") {
  temporary_folder folder;
  CHECK_THROWS_AS((kept_scores{folder / "absent", run_named("r1"), {}}),
                  run_error);
}
