#include "config/report/report.hpp"
#include "tests/config/support.hpp"

#include <catch2/catch_test_macros.hpp>

using namespace troupe::config;
using namespace troupe::config::test;

namespace {

resolved simulated(const std::string& flags, const environment& all = {}) {
  return parse(split("--simulate " + flags), all).config;
}

std::string said(const std::string& flags) {
  return complaint([&] { simulated(flags); });
}

} // namespace

TEST_CASE("a range of workers sets its limits, and how many are complete") {
  for (std::string how : {"--workers 2:4", "--min-workers 2 --max-workers 4",
                          "--set cluster.workers=2:4"}) {
    INFO(how);
    auto cluster = simulated(how).values.cluster;
    CHECK(cluster.is_elastic());
    CHECK(cluster.fewest_workers() == 2);
    CHECK(cluster.max_workers == 4);
    CHECK(cluster.workers == 4);
  }
  auto one = simulated("", {{"TROUPE_CLUSTER_WORKERS", "3:3"}});
  CHECK(one.values.cluster.workers == 3);
  CHECK(one.cite("cluster.max-workers") == "TROUPE_CLUSTER_WORKERS=3:3");
  CHECK(simulated("--min-workers 6").values.cluster.workers == 6);
  CHECK(simulated("--max-workers 2").values.cluster.workers == 2);
  CHECK(simulated("--workers 3 --max-workers 5").values.cluster.workers == 3);
  CHECK(!simulated("--workers 3").values.cluster.is_elastic());
}

TEST_CASE("a number of workers takes the place of a range of another source") {
  scratch folder;
  auto file = folder.write("a.ini", "[cluster]\nworkers = 2:4\n");
  auto cluster = simulated("--config " + file + " --workers 8").values.cluster;
  CHECK(cluster.workers == 8);
  CHECK(!cluster.is_elastic());
  CHECK(simulated("--config " + file).values.cluster.max_workers == 4);
}

TEST_CASE("the default momentum is that of the workers that are there") {
  auto varies = simulated("--workers 1:4 --policy async").values.training;
  CHECK(varies.momentum == asynchronous_momentum(1));
  CHECK(varies.momentum_by_workers == true);
  auto given =
    simulated("--workers 1:4 --policy async --momentum 0.5").values.training;
  CHECK(given.momentum == 0.5);
  CHECK(!given.momentum_by_workers);
  CHECK(!simulated("--workers 1:4").values.training.momentum_by_workers);
  CHECK(!simulated("--policy async").values.training.momentum_by_workers);
}

TEST_CASE("the largest batch of a global one is that of the fewest workers") {
  auto uut = simulated("--workers 2:4 --global-batch-size 65");
  CHECK(uut.values.training.batch_size == 33);
}

TEST_CASE("limits of workers that cannot be are refused in one line") {
  CHECK(said("--workers 4:2") ==
        "--workers 4:2: MIN, 4, is above MAX, 2: give the smaller number "
        "first, or a larger max-workers");
  CHECK(said("--min-workers 4 --max-workers 2") ==
        "--min-workers 4: MIN, 4, is above MAX, 2: give the smaller number "
        "first, or a larger max-workers");
  CHECK(said("--workers :4") ==
        "--workers :4: must be N, or MIN:MAX such as 2:4");
  CHECK(said("--workers 0:4") == "--workers 0:4: must be at least 1");
  CHECK(said("--workers 2:4 --min-workers 3") ==
        "--workers 2:4 contradicts --min-workers 3: give one of the two");
  CHECK(said("--workers 8 --max-workers 4") ==
        "--workers 8: is above max-workers, 4");
  CHECK(said("--workers 2 --min-workers 4") ==
        "--workers 2: is below min-workers, 4");
  CHECK(said("--workers 2:4 --sharding static") ==
        "--workers 2:4: the number of workers may vary only where all share "
        "the samples, and --sharding static gives each of them its own: "
        "give as many as MIN and as MAX, or leave --sharding out");
  CHECK(said("--workers 4:4 --sharding static").empty());
  CHECK(said("--workers 2:4 --topology peers") ==
        "--workers 2:4: peers deal out the weights anew when one comes or "
        "goes, and with GPUs add up gradients of all of them: give as many "
        "as MIN and as MAX, or leave --topology peers out");
  CHECK(said("--workers 2:4 --policy backup --backup-workers 2") ==
        "--backup-workers 2: must be less than the number of workers, 2");
  CHECK(said("--workers 2:4 --global-batch-size 3") ==
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
