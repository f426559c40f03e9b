// Peers whose sockets hold much less than a gradient: all of them push and are
// answered at the same time, so that both directions of each connection are
// full.

#include "tests/process/process_fixture.hpp"

#include <catch2/catch_test_macros.hpp>

using namespace troupe::testing;

TEST_CASE("four peers exchange 45 MB through sockets of 64 KiB") {
  process_fixture on;
  child_options small;
  small.environment = {{"LD_PRELOAD", TROUPE_SMALL_BUFFERS}};
  std::vector<child> all;
  for (auto rank : {"0", "1", "2", "3"})
    all.push_back(on.start(
      "peer",
      {"--role",        "auto",
       "--topology",    "peers",
       "--rank",        rank,
       "--workers",     "4",
       "--init-method", "tcp://127.0.0.1:" + on.port(),
       "--train-dir",   on.run().string(),
       "--transport",   "stream",
       "--threads",     "1",
       "--network",     "resnet18_cifar",
       "--dataset",     "synthetic(shape=3x32x32,classes=10,samples=64)",
       "--batch-size",  "2",
       "--policy",      "sync",
       "--momentum",    "0.9",
       "--max-steps",   "4"},
      small));
  for (auto& one : all)
    check_end(one, 0);
  auto summary = on.summary();
  CHECK(summary["steps"] == 4);
  REQUIRE(summary["bytes_sent_per_step"].size() == 4);
  for (double bytes : summary["bytes_sent_per_step"])
    CHECK(bytes > 60e6);
}
