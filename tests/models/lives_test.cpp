#include "config/text/failure.hpp"
#include "models/storage/durable_file.hpp"
#include "models/storage/lives.hpp"
#include "tests/support/temporary_folder.hpp"

#include <catch2/catch_test_macros.hpp>

using namespace troupe;
using troupe::testing::temporary_folder;

TEST_CASE("the last life of a run is remembered") {
  temporary_folder run;
  CHECK(models::last_life(run.path()) == 0);
  models::note_life(run.path(), 1);
  CHECK(models::last_life(run.path()) == 1);
  models::note_life(run.path(), 4294967295);
  CHECK(models::last_life(run.path()) == 4294967295);
}

TEST_CASE("a number of lives that is none is said, and not guessed") {
  temporary_folder run;
  for (const auto* text : {"", "x", "-1", "1 2", "4294967296", "1\n\n"}) {
    INFO(text);
    models::replace_file(run / "lives", text);
    CHECK_THROWS_AS(models::last_life(run.path()), run_error);
  }
}

TEST_CASE("a process learns that another leads its run since") {
  temporary_folder run;
  auto first = models::note_life(run.path(), 1);
  first->require();
  CHECK(models::last_life(run.path()) == 1);
  // The other one may also begin the run anew, or begin at the same time.
  for (uint32_t life : {1, 2}) {
    auto second = models::note_life(run.path(), life);
    second->require();
    CHECK_THROWS_AS(first->require(), run_error);
    first = second;
  }
  std::filesystem::remove(run.path() / "lives"); // By hand: nobody leads it.
  first->require();
}
