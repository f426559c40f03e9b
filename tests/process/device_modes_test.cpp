// Networks in several places, some of them devices: the weights of the CPU from
// every mode, bit for bit where the server steps on the CPU.

#include "tests/process/fake_device.hpp"
#include "tests/process/process_fixture.hpp"
#include "tests/support/replayed_checkpoints.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <algorithm>
#include <string>
#include <vector>

using namespace troupe::testing;
using Catch::Matchers::ContainsSubstring;

namespace {

/// With steps so small that other rounding does not lead far: it may decide
/// which number of a pool is the largest, and then a gradient differs.
const flags short_run{"--network",    "mnist_net", "--workers",   "2",
                      "--batch-size", "16",        "--max-steps", "6",
                      "--threads",    "1",         "--lr",        "0.001",
                      "--momentum",   "0"};
const flags remote{"--mode", "remote-forward", "--micro-batch-size", "4"};
const flags stages{"--mode", "pipeline", "--micro-batches", "4"};

flags placed(const std::string& rules) {
  return {"--placement", rules};
}

/// The same run on the CPU, to compare with.
struct cpu_run {
  explicit cpu_run(const flags& how) {
    auto run = on.simulate(short_run + how);
    CHECK(run.wait() == 0);
  }

  void check_same_weights(const process_fixture& other,
                          double tolerance = 0) const {
    if (tolerance == 0) {
      CHECK(other.summary()["weights_sha256"] ==
            on.summary()["weights_sha256"]);
      return;
    }
    auto found =
      troupe::test::compare_checkpoints(other.run(), 1, on.run(), tolerance);
    CHECK(found.compared > 0);
    CHECK(found.differences == std::vector<std::string>{});
  }

  process_fixture on{recorded};
};

/// Of the weights of a server that steps on a device.
constexpr double other_rounding = 1e-5;

} // namespace

TEST_CASE("each mode makes the CPU's weights on devices") {
  cpu_run wanted{{"--micro-batch-size", "4"}};
  fake_device device;
  for (const auto& how :
       {flags{"--micro-batch-size", "4", "--device", "cuda"},
        stages + flags{"--stages", "2", "--device", "cuda"},
        stages + placed("conv*=worker:cuda:0,*=worker:cuda:1"),
        stages + placed("conv*=worker:cuda,*=worker:cpu"),
        remote + flags{"--device", "cuda:1"},
        remote + placed("conv*=ps:0:cuda:0,fc1=worker:cuda:1,*=ps:0:cpu")}) {
    process_fixture on{recorded};
    auto run = on.simulate(short_run + how);
    CHECK(run.wait() == 0);
    INFO(run.report());
    auto tolerance =
      std::ranges::count(how, "--device") > 0 ? other_rounding : 0;
    wanted.check_same_weights(on, tolerance);
    check_replayed(on, tolerance); // On the CPU.
  }
}

TEST_CASE(
  "replicas of a worker are on a device each, or on one that is named") {
  flags three{"--replicas", "3"};
  cpu_run wanted{three};
  fake_device device;
  for (const auto* name : {"cuda", "cuda:1"}) {
    process_fixture on{recorded};
    auto run = on.simulate(short_run + three + flags{"--device", name});
    CHECK(run.wait() == 0);
    INFO(run.report());
    CHECK(run.said("replicas +on cuda:0, cuda:1") ==
          (std::string{"cuda"} == name));
    wanted.check_same_weights(on, other_rounding);
    check_replayed(on, other_rounding);
  }
}

TEST_CASE("local steps on a device make the CPU's weights") {
  const flags local{"--local-steps", "3",    "--inner-optimizer",
                    "sgd(lr=0.001)", "--lr", "0.7"};
  for (const auto& how :
       {local, local + flags{"--fragments", "3", "--overlap-steps", "2"}}) {
    cpu_run wanted{how};
    fake_device device;
    process_fixture on{recorded};
    auto run = on.simulate(short_run + how + flags{"--device", "cuda"});
    CHECK(run.wait() == 0);
    INFO(run.report());
    wanted.check_same_weights(on, other_rounding);
    check_replayed(on, other_rounding); // On the CPU.
  }
}

TEST_CASE("a process takes the devices of all of its replicas") {
  flags two{"--replicas", "2"};
  cpu_run wanted{two};
  fake_device device;
  process_fixture on;
  auto server = on.listening_server(short_run + two);
  auto worker = on.worker({"--device", "cuda"}); // Learns of the replicas.
  worker.await("replicas +on cuda:[01], cuda:[01]");
  auto refused = on.worker({"--device", "cuda"});
  CHECK(refused.wait() == 1);
  CHECK_THAT(refused.err(),
             ContainsSubstring("other processes have taken all 2 GPUs"));
  auto other = on.worker({"--device", "auto"});
  CHECK(server.wait() == 0);
  CHECK(worker.wait() == 0);
  CHECK(other.wait() == 0);
  CHECK(other.said("device +cpu"));
  wanted.check_same_weights(on);
}

TEST_CASE("replicas share the device that others have left") {
  flags two{"--replicas", "2"};
  cpu_run wanted{two};
  fake_device device;
  setenv("FAKE_CUDA_DEVICES", "1", 1);
  process_fixture on;
  auto run = on.listening_server(short_run + two);
  auto worker = on.worker({"--device", "cuda"});
  auto other = on.worker();
  CHECK(run.wait() == 0);
  CHECK(worker.wait() == 0);
  CHECK_FALSE(worker.said("replicas +on"));
  CHECK(other.wait() == 0);
  wanted.check_same_weights(on);
}

TEST_CASE("server and workers in processes have their parts on devices") {
  cpu_run wanted{{"--micro-batch-size", "4"}};
  fake_device device;
  process_fixture on;
  auto server = on.listening_server(short_run + remote +
                                    placed("conv*=ps:0:cuda:0,*=worker:cuda"));
  auto one = on.worker(); // Takes a device when it learns the placement.
  auto other = on.worker({"--device", "cuda"});
  CHECK(server.wait() == 0);
  CHECK(one.wait() == 0);
  CHECK(other.wait() == 0);
  INFO(server.report() + one.report() + other.report());
  wanted.check_same_weights(on);
}

TEST_CASE("a server computes its parts on the device that it is given") {
  cpu_run wanted{{"--micro-batch-size", "4"}};
  fake_device device;
  process_fixture on;
  auto server =
    on.listening_server(short_run + remote + flags{"--device", "cuda"});
  auto one = on.worker();
  auto other = on.worker();
  CHECK(server.wait() == 0);
  CHECK(server.said("device +cuda:"));
  CHECK(one.wait() == 0);
  CHECK(other.wait() == 0);
  wanted.check_same_weights(on, other_rounding);
}

TEST_CASE("networks in parts train in fp16, if each part has a device") {
  fake_device device;
  flags half{"--autocast", "fp16"};
  for (const auto& how :
       {stages + placed("conv*=worker:cuda:0,*=worker:cuda:1"),
        remote + placed("conv*=ps:0:cuda:0,*=worker:cuda:1")}) {
    process_fixture on;
    auto run = on.simulate(short_run + half + how);
    CHECK(run.wait() == 0);
    INFO(run.report());
    CHECK(on.summary()["gradients_refused"] == 0);
    auto lines = read_metrics(on.run());
    auto update = std::ranges::find_if(lines, is_step(1));
    REQUIRE(update != lines.end());
    CHECK((*update)["metrics"]["fp16/scale"] == 65536);
  }
  process_fixture on;
  auto refused = on.simulate(short_run + half + remote +
                             placed("conv*=ps:0:cuda:0,*=worker:cpu"));
  CHECK(refused.wait() == 1);
  CHECK_THAT(refused.err(), ContainsSubstring("--autocast fp16 needs a GPU"));
}

TEST_CASE("a server and its workers have their parts in fp16") {
  fake_device device;
  process_fixture on;
  auto server =
    on.listening_server(short_run + remote + flags{"--autocast", "fp16"} +
                        placed("conv*=ps:0:cuda:0,*=worker:cuda:1"));
  auto one = on.worker();
  auto other = on.worker();
  check_end(server, 0);
  check_end(one, 0);
  check_end(other, 0);
  CHECK(on.summary()["gradients_refused"] == 0);
}

TEST_CASE(
  "a worker with a part on a device dies, and its samples are another's") {
  fake_device device;
  process_fixture on;
  auto server =
    on.listening_server(flags{"--network", "mnist_net", "--workers", "2",
                              "--policy", "async", "--epochs", "2"} +
                        stages + placed("conv*=worker:cuda:0,*=worker:cuda:1"));
  auto one = on.worker();
  auto other = on.worker();
  on.await(server, "a step", is_step(4));
  other.kill();
  CHECK(server.wait() == 0);
  CHECK(one.wait() == 0);
  check_completed(on, 2);
}
