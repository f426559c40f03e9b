// What becomes of a run when a life of its server fails, when nobody computes
// any more, and while its server starts.

#include "tests/process/peers.hpp"

#include <catch2/catch_test_macros.hpp>

#include <csignal>

using namespace troupe::testing;

namespace {

const flags endless{"--epochs", "100000", "--checkpoint-freq", "10",
                    "--lr",     "0.01",   "--workers",         "2"};

} // namespace

TEST_CASE("workers and shards of a life that failed wait for the next one") {
  process_fixture on{recorded};
  sharded_server first{on, 3, endless};
  auto workers = workers_of(on, 2);
  on.await(first.lead, "a checkpoint", is_kind("checkpoint"));
  first.others[0].kill();
  check_end(first.lead, 1);
  first.others[1].await("waiting .* for the next life");
  workers[0].await("waiting .* for the parameter server");
  auto lead = on.listening_server(endless + with_shards(3) +
                                  flags{"--rank", "0", "--resume", "auto"});
  auto shard = on.shard(1, with_shards(3));
  auto at = on.await(lead, "the next life", is_kind("resumed"));
  for (uint32_t who : {0, 1})
    on.await(lead, "an update", is_gradient_of(who), at);
  lead.signal(SIGTERM);
  check_end(lead, 75);
  check_ends_of(workers, 0);
  check_replayed(on);
}
