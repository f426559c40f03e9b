#include "actors/recording/metrics_log.hpp"
#include "actors/recording/metrics_tail.hpp"
#include "config/text/failure.hpp"
#include "tests/support/temporary_folder.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

using namespace troupe;
using namespace troupe::recording;
using testing::slurp;
using testing::spill;
using testing::temporary_folder;

TEST_CASE("the last update of a log is found behind other lines") {
  temporary_folder folder;
  auto path = folder / "metrics.jsonl";
  CHECK(last_step(path) == std::nullopt);
  metrics_log log{path, metrics_log::mode::fresh};
  CHECK(last_step(path) == std::nullopt);
  log.epoch(0, 0, 0);
  CHECK(last_step(path) == std::nullopt);
  auto before = GENERATE(0, 3000);
  for (int i = 0; i < before; ++i)
    log.warning(0, 0, "of no interest");
  log.update({7, 0, 0, 0, 0, {}});
  CHECK(last_step(path) == 7);
  log.evaluation({9, 0, 0, {}});
  auto after = GENERATE(0, 1, 3000); // many blocks of the file
  for (int i = 0; i < after; ++i)
    log.warning(9, 0, std::string(static_cast<size_t>(i), 'x'));
  CHECK(last_step(path) == 7);
  // A torn update is none.
  spill(path, slurp(path) + R"({"kind":"update","step":8})");
  CHECK(last_step(path) == 7);
}

TEST_CASE("a life that makes no update loses none of those before it") {
  temporary_folder folder;
  auto path = folder / "metrics.jsonl";
  metrics_log log{path, metrics_log::mode::fresh};
  log.update({22, 0, 0, 0, 0, {}});
  log.resumed(20, 0, life_number{2}, 2, {});
  CHECK(last_step(path) == 20);
  log.update({21, 0, 0, 0, 0, {}});
  CHECK(last_step(path) == 21);
}

TEST_CASE("an end without a line has no update") {
  temporary_folder folder;
  auto path = folder / "metrics.jsonl";
  for (const auto* text : {"", "\n", "\n\n", "x", "{\"kind\":\"update\"}\n",
                           "{\"kind\":\"update\",\"step\":-1}\n"}) {
    spill(path, text);
    CHECK(last_step(path) == std::nullopt);
  }
  spill(path, std::string(200000, 'x'));
  CHECK(last_step(path) == std::nullopt);
  CHECK_THROWS_AS(last_step(folder.path()), run_error);
}
