// Clusters whose tensors go from device to device: over a double of NCCL
// between processes, which works in streams of the fake device.

#include "tests/process/fake_device.hpp"
#include "tests/process/peers.hpp"
#include "tests/process/process_fixture.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <algorithm>
#include <cstdlib>
#include <string>

using namespace troupe::testing;
using Catch::Matchers::ContainsSubstring;

namespace {

/// Of the weights of a server on a device, beside those of its replay.
constexpr double close_to_cpu = 1e-4;

/// Steps so small that other rounding does not lead far.
const flags small_steps{"--lr", "0.001", "--momentum", "0"};

const flags on_gpu{"--device", "cuda"};
const flags over_nccl{"--device", "cuda", "--transport", "nccl"};

/// Devices, and NCCL between them.
struct fake_devices : fake_device {
  fake_devices() : fake_device(4) {
    setenv("TROUPE_NCCL_LIBRARY", FAKE_NCCL, 1);
  }

  ~fake_devices() {
    unsetenv("TROUPE_NCCL_LIBRARY");
    unsetenv("FAKE_NCCL_FAULTS");
  }
};

} // namespace

TEST_CASE("a star trains from device to device under every policy") {
  fake_devices devices;
  for (const auto* policy : {"sync", "async", "ssp", "backup"}) {
    process_fixture on{recorded};
    auto server =
      on.listening_server(small_steps +
                          flags{"--workers", "2", "--epochs", "2", "--policy",
                                policy, "--eval-freq", "10"} +
                          over_nccl);
    auto evaluator = on.evaluator(over_nccl);
    auto workers = workers_of(on, 2, over_nccl);
    check_ends_of(workers, 0);
    check_end(server, 0);
    check_end(evaluator, 0);
    INFO(policy << server.report() << workers[0].report());
    for (auto& worker : workers)
      CHECK(worker.said("over nccl"));
    CHECK(evaluator.said("over nccl"));
    CHECK(on.summary()["samples_applied"] == 2 * digits);
    check_replayed(on, close_to_cpu);
  }
}

TEST_CASE("a worker dies between devices, and the others train on") {
  fake_devices devices;
  process_fixture on{recorded};
  auto server = on.listening_server(
    small_steps +
    flags{"--workers", "3", "--policy", "async", "--epochs", "10"} + over_nccl);
  auto workers = workers_of(on, 3, over_nccl);
  on.await(server, "a step", is_step(20));
  workers[1].kill();
  check_end(server, 0);
  check_end(workers[0], 0);
  check_end(workers[2], 0);
  CHECK(on.summary()["samples_applied"] == 10 * digits);
  check_replayed(on, close_to_cpu);
}

TEST_CASE("a server between devices is killed, and goes on in its next life") {
  fake_devices devices;
  process_fixture on{recorded};
  auto how = small_steps + flags{"--workers", "2",  "--policy",          "sync",
                                 "--epochs",  "10", "--checkpoint-freq", "5"} +
             over_nccl;
  auto first = on.listening_server(how);
  auto workers = workers_of(on, 2, over_nccl);
  on.await(first, "a step", is_step(20));
  first.kill();
  auto second = on.server(how + flags{"--resume", "auto"});
  check_ends_of(workers, 0);
  check_end(second, 0);
  CHECK(on.summary()["samples_applied"] == 10 * digits);
  check_replayed(on, close_to_cpu);
}

TEST_CASE("NCCL that fails gives way to the stream, and nothing is lost") {
  for (const auto* fault : {"call-fails:0", "fails:1", "meets-badly:1"}) {
    fake_devices devices;
    setenv("FAKE_NCCL_FAULTS", fault, 1);
    process_fixture on{recorded};
    auto server = on.listening_server(
      small_steps +
      flags{"--workers", "2", "--policy", "sync", "--epochs", "4"} + over_nccl);
    auto workers = workers_of(on, 2, over_nccl);
    check_ends_of(workers, 0);
    check_end(server, 0);
    INFO(fault << workers[0].report() << server.report());
    CHECK(workers[0].said("path +nccl is not used for a minute: it broke"));
    CHECK(workers[0].said("over stream"));
    CHECK(on.summary()["samples_applied"] == 4 * digits);
    check_replayed(on, close_to_cpu);
  }
}

TEST_CASE("a worker whose gradients are NaN leaves, and the others train on") {
  fake_devices devices;
  process_fixture on{recorded};
  auto server = on.listening_server(
    small_steps + flags{"--workers", "2", "--policy", "sync", "--epochs", "4"} +
    over_nccl);
  auto good = on.worker(over_nccl);
  setenv("FAKE_NCCL_FAULTS", "sends-nan:0", 1);
  auto bad = on.worker(over_nccl);
  check_end(server, 0);
  check_end(good, 0);
  check_end(bad, 1);
  INFO(server.report());
  CHECK(on.summary()["gradients_refused"] == 20);
  CHECK(on.summary()["samples_applied"] == 4 * digits);
  check_replayed(on, close_to_cpu);
}

TEST_CASE("peers add up their gradients and gather their weights") {
  fake_devices devices;
  for (const auto& more : {flags{"--checkpoint-freq", "3"},
                           flags{"--clip-norm", "1", "--optimizer", "lamb"}}) {
    process_fixture on{recorded};
    auto peers = start_peers(
      on, 3,
      small_steps + flags{"--policy", "sync", "--epochs", "2"} + on_gpu + more);
    check_ends_of(peers, 0);
    for (auto& peer : peers)
      CHECK(peer.said("sums +over NCCL, by 3 GPUs"));
    check_replayed(on, close_to_cpu);
  }
}

TEST_CASE("peers add up their gradients in 16 bits") {
  fake_devices devices;
  process_fixture on;
  auto peers = start_peers(
    on, 2,
    flags{"--policy", "sync", "--epochs", "4", "--compression", "bf16"} +
      on_gpu);
  check_ends_of(peers, 0);
  CHECK(peers[0].said("sums +over NCCL, by 2 GPUs"));
  CHECK(on.summary()["samples_applied"] == 4 * digits);
  CHECK(on.summary()["final_loss"] < 1);
}

TEST_CASE("peers that look at the norm of each gradient add up none") {
  fake_devices devices;
  process_fixture on{recorded};
  auto peers = start_peers(
    on, 3,
    small_steps +
      flags{"--policy", "sync", "--epochs", "2", "--outliers", "refuse"} +
      on_gpu);
  check_ends_of(peers, 0);
  CHECK_FALSE(peers[0].said("sums +over NCCL"));
  CHECK(on.summary()["gradients_refused"] == 0);
  check_replayed(on, close_to_cpu);
}

TEST_CASE("a peer dies while others add up, and they go on with NCCL") {
  fake_devices devices;
  process_fixture on{recorded};
  auto peers = start_peers(
    on, 3,
    small_steps +
      flags{"--policy", "sync", "--epochs", "20", "--checkpoint-freq", "5"} +
      on_gpu);
  on.await(peers[0], "a step", is_step(12));
  peers[1].kill();
  check_end(peers[0], 0);
  check_end(peers[2], 0);
  INFO(peers[0].report());
  CHECK(peers[0].said("goes on +parameter server shard 1 .* is lost"));
  CHECK(peers[0].said("sums +over NCCL, by 2 GPUs"));
  CHECK(on.summary()["samples_applied"] == 20 * digits);
  check_replayed(on, close_to_cpu);
}

TEST_CASE("a sum that fails counts for nobody, and peers go on without NCCL") {
  fake_devices devices;
  setenv("FAKE_NCCL_FAULTS", "call-fails:1", 1);
  process_fixture on{recorded};
  auto peers = start_peers(
    on, 3, small_steps + flags{"--policy", "sync", "--epochs", "2"} + on_gpu);
  check_ends_of(peers, 0);
  INFO(peers[0].report());
  CHECK(peers[0].said("goes on +a sum over NCCL failed: "));
  CHECK(peers[0].said("over shm"));
  CHECK(on.summary()["samples_applied"] == 2 * digits);
  check_replayed(on, close_to_cpu);
}

TEST_CASE("auto takes NCCL between two devices, and another path elsewhere") {
  fake_devices devices;
  process_fixture on{recorded};
  auto server =
    on.listening_server(small_steps + flags{"--workers", "3", "--epochs", "2",
                                            "--device", "cuda:0"});
  auto far = on.worker({"--device", "cuda:1"});
  auto near = on.worker({"--device", "cuda:0"});
  auto on_host = on.worker();
  check_end(server, 0);
  check_end(far, 0);
  check_end(near, 0);
  check_end(on_host, 0);
  CHECK(far.said("over nccl"));
  CHECK(near.said("over shm"));
  CHECK(on_host.said("over shm"));
  CHECK(on.summary()["samples_applied"] == 2 * digits);
  check_replayed(on, close_to_cpu);
}

TEST_CASE("NCCL that cannot be had is one line") {
  process_fixture on;
  auto complaint = [&on](const flags& how) {
    auto run = on.worker(how + flags{"--transport", "nccl"});
    CHECK(run.wait() == 1);
    INFO(run.report());
    CHECK(std::ranges::count(run.err(), '\n') == 1);
    return run.err();
  };
  CHECK_THAT(complaint({}), ContainsSubstring(
                              "--transport nccl: sends from GPU to GPU, and "
                              "this node has its tensors in the host's memory; "
                              "add --device cuda"));
  fake_devices devices;
  setenv("TROUPE_NCCL_LIBRARY", "/nowhere/libnccl.so", 1);
  CHECK_THAT(complaint({"--device", "cuda"}),
             ContainsSubstring("--transport nccl: ") &&
               ContainsSubstring("/nowhere/libnccl.so"));
}
