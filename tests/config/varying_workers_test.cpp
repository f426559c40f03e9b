#include "config/report/report.hpp"
#include "tests/config/support.hpp"

#include <catch2/catch_test_macros.hpp>

using namespace troupe::config;
using namespace troupe::config::test;

namespace {

resolved simulate_with(const std::string& flags, const environment& all = {}) {
  return parse(split("--simulate " + flags), all).config;
}

std::string complaint_on_workers(const std::string& flags) {
  return complaint([&] { simulate_with(flags); });
}

} // namespace

TEST_CASE("a range of workers sets its limits, and how many are complete") {
  for (std::string how : {"--workers 2:4", "--min-workers 2 --max-workers 4",
                          "--set cluster.workers=2:4"}) {
    INFO(how);
    auto cluster = simulate_with(how).values.cluster;
    CHECK(cluster.is_elastic());
    CHECK(cluster.fewest_workers() == 2);
    CHECK(cluster.max_workers == 4);
    CHECK(cluster.workers == 4);
  }
  auto one = simulate_with("", {{"TROUPE_CLUSTER_WORKERS", "3:3"}});
  CHECK(one.values.cluster.workers == 3);
  CHECK(one.cite("cluster.max-workers") == "TROUPE_CLUSTER_WORKERS=3:3");
  CHECK(simulate_with("--min-workers 6").values.cluster.workers == 6);
  CHECK(simulate_with("--max-workers 2").values.cluster.workers == 2);
  CHECK(simulate_with("--workers 3 --max-workers 5").values.cluster.workers ==
        3);
  CHECK(!simulate_with("--workers 3").values.cluster.is_elastic());
}

TEST_CASE("a number of workers takes the place of a range of another source") {
  scratch folder;
  auto file = folder.write("a.ini", "[cluster]\nworkers = 2:4\n");
  auto cluster =
    simulate_with("--config " + file + " --workers 8").values.cluster;
  CHECK(cluster.workers == 8);
  CHECK(!cluster.is_elastic());
  CHECK(simulate_with("--config " + file).values.cluster.max_workers == 4);
}

TEST_CASE("the default momentum is that of the workers that are there") {
  auto varies = simulate_with("--workers 1:4 --policy async").values.training;
  CHECK(varies.momentum == asynchronous_momentum(1));
  CHECK(varies.momentum_by_workers == true);
  auto given = simulate_with("--workers 1:4 --policy async --momentum 0.5")
                 .values.training;
  CHECK(given.momentum == 0.5);
  CHECK(!given.momentum_by_workers);
  CHECK(!simulate_with("--workers 1:4").values.training.momentum_by_workers);
  CHECK(!simulate_with("--policy async").values.training.momentum_by_workers);
}

TEST_CASE("the largest batch of a global one is that of the fewest workers") {
  auto uut = simulate_with("--workers 2:4 --global-batch-size 65");
  CHECK(uut.values.training.batch_size == 33);
}

TEST_CASE("limits of workers that cannot be are refused in one line") {
  CHECK(complaint_on_workers("--workers 4:2") ==
        "--workers 4:2: MIN, 4, is above MAX, 2: give the smaller number "
        "first, or a larger max-workers");
  CHECK(complaint_on_workers("--min-workers 4 --max-workers 2") ==
        "--min-workers 4: MIN, 4, is above MAX, 2: give the smaller number "
        "first, or a larger max-workers");
  CHECK(complaint_on_workers("--workers :4") ==
        "--workers :4: must be N, or MIN:MAX such as 2:4");
  CHECK(complaint_on_workers("--workers 0:4") ==
        "--workers 0:4: must be at least 1");
  CHECK(complaint_on_workers("--workers 2:4 --min-workers 3") ==
        "--workers 2:4 contradicts --min-workers 3: give one of the two");
  CHECK(complaint_on_workers("--workers 8 --max-workers 4") ==
        "--workers 8: is above max-workers, 4");
  CHECK(complaint_on_workers("--workers 2 --min-workers 4") ==
        "--workers 2: is below min-workers, 4");
  CHECK(complaint_on_workers("--workers 2:4 --sharding static") ==
        "--workers 2:4: the number of workers may vary only where all share "
        "the samples, and --sharding static gives each of them its own: "
        "give as many as MIN and as MAX, or leave --sharding out");
  CHECK(complaint_on_workers("--workers 4:4 --sharding static").empty());
  CHECK(complaint_on_workers("--workers 2:4 --topology peers") ==
        "--workers 2:4: peers deal out the weights anew when one comes or "
        "goes, and with GPUs add up gradients of all of them: give as many "
        "as MIN and as MAX, or leave --topology peers out");
  CHECK(
    complaint_on_workers("--workers 2:4 --policy backup --backup-workers 2") ==
    "--backup-workers 2: must be less than the number of workers, 2");
  CHECK(complaint_on_workers("--workers 2:4 --global-batch-size 3") ==
        "--global-batch-size 3: is less than a sample for each of 4 "
        "workers");
}

TEST_CASE("a launcher may have fewer workers than the most") {
  environment torchrun{{"RANK", "0"},
                       {"WORLD_SIZE", "4"},
                       {"LOCAL_RANK", "0"},
                       {"MASTER_ADDR", "127.0.0.1"},
                       {"MASTER_PORT", "29500"}};
  auto uut = parse(split("--role auto --workers 2:5"), torchrun).config;
  CHECK(uut.values.cluster.workers == 3);
  CHECK(uut.values.cluster.max_workers == 5);
}
