// Each lease of a real run is settled exactly once, whichever process is
// killed. Checked position by position in the server's own event log.

#include "tests/process/process_fixture.hpp"
#include "tests/support/lease_account.hpp"

#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <csignal>
#include <map>

using namespace troupe::testing;
using troupe::test::lease_account;

namespace {

flags settings_of(const std::string& policy) {
  return {"--policy",          policy,   "--workers",    "3",
          "--epochs",          "100000", "--batch-size", "16",
          "--checkpoint-freq", "50"};
}

auto is_joined(uint32_t who) {
  return [who](const json& line) {
    return line["kind"] == "joined" && line["worker"] == who;
  };
}

/// A server and three workers, of which one after the other is killed.
struct cluster {
  explicit cluster(const std::string& policy)
    : settings(settings_of(policy)), server(on.listening_server(settings)) {
    for (uint32_t rank = 0; rank < 3; ++rank)
      workers.emplace(rank, on.worker({"--rank", std::to_string(rank)}));
    for (uint32_t rank = 0; rank < 3; ++rank)
      on.await(server, "training", is_gradient_of(rank));
  }

  void start(uint32_t rank) {
    auto name = std::to_string(rank);
    auto from = on.metrics().size();
    workers.insert_or_assign(rank, on.worker({"--rank", name}));
    from = on.await(server, "worker " + name, is_joined(rank), from);
    on.await(server, "its gradients", is_gradient_of(rank), from);
  }

  void kill(uint32_t rank) {
    auto from = on.metrics().size();
    workers.at(rank).kill();
    on.await(server, "that it left", is_kind("left"), from);
  }

  /// Ends the run in good order, in the middle of an epoch.
  void stop() {
    server.signal(SIGINT);
    check_end(server, 75);
    for (auto& [rank, worker] : workers)
      check_end(worker, 0);
  }

  /// What the event logs say is right in itself, and is what the summary, the
  /// lines and the last checkpoint say. Returns how many epochs are complete.
  uint64_t check(const lease_account& leases) {
    INFO(on.summary().dump(2));
    INFO(leases.returned() << " leases were returned");
    CHECK(leases.breaches() == std::vector<std::string>{});
    CHECK(leases.returned() > 0);
    CHECK(on.summary()["samples_applied"] == leases.applied());
    auto last = on.run() / "checkpoints" / checkpoints_of(on.run()).back();
    CHECK(settled_in(last) == leases.applied());
    auto steps = committed_of(on.metrics()).updates.size();
    CHECK(on.summary()["steps"] == steps);
    uint64_t whole = 0;
    for (uint64_t epoch = 0; leases.applied(epoch) > 0; ++epoch)
      whole += leases.applied(epoch) == digits;
    check_replayed(on);
    return whole;
  }

  process_fixture on{recorded};
  flags settings;
  child server;
  std::map<uint32_t, child> workers{};
};

void kill_workers(const std::string& policy) {
  cluster all{policy};
  for (uint32_t rank : {2u, 0u, 1u}) {
    auto from = all.on.metrics().size();
    all.on.await(all.server, "an epoch", is_kind("epoch"), from);
    all.kill(rank);
    all.start(rank);
  }
  all.stop();
  lease_account leases;
  leases.add(all.on.run() / "tape-1.pb");
  auto lines = all.on.metrics();
  auto over = std::ranges::count_if(lines, is_kind("epoch"));
  CHECK(all.check(leases) == static_cast<uint64_t>(over));
}

} // namespace

TEST_CASE("sync: each lease is settled once, although workers are killed") {
  kill_workers("sync");
}

TEST_CASE("backup: each lease is settled once, although workers are killed") {
  kill_workers("backup");
}

TEST_CASE("ssp: each lease is settled once, although workers are killed") {
  kill_workers("ssp");
}

TEST_CASE("async: each lease is settled once, although workers are killed") {
  kill_workers("async");
}

TEST_CASE("each lease is settled once, although the server is killed, too") {
  cluster all{"async"};
  auto& on = all.on;
  auto saved = on.await(all.server, "a checkpoint", is_kind("checkpoint"));
  on.await(all.server, "an epoch", is_kind("epoch"), saved);
  all.workers.at(0).kill();
  all.server.kill();
  auto from = on.metrics().size();
  all.server = on.server(all.settings + flags{"--resume", "auto"});
  from = on.await(all.server, "that it goes on", is_kind("resumed"), from);
  all.start(0);
  on.await(all.server, "the others", is_gradient_of(1), from);
  // The kill of the server may have rolled back the effects of the first death;
  // those of this one are in the final weights.
  all.kill(1);
  all.start(1);
  on.await(all.server, "an epoch", is_kind("epoch"), from);
  all.stop();
  auto resumed = on.metrics()[from];
  lease_account leases;
  leases.add(on.run() / "tape-1.pb", resumed["step"]);
  auto life = std::to_string(resumed["incarnation"].get<uint64_t>());
  leases.add(on.run() / ("tape-" + life + ".pb"));
  CHECK(all.check(leases) >= 1);
}
