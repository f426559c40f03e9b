// Networks in several places, some of them devices: the weights of the CPU, bit
// for bit, from every mode.

#include "tests/process/fake_device.hpp"
#include "tests/process/process_fixture.hpp"

#include <catch2/catch_test_macros.hpp>

#include <string>

using namespace troupe::testing;

namespace {

const flags short_run{"--network",    "mnist_net", "--workers",   "2",
                      "--batch-size", "16",        "--max-steps", "6",
                      "--threads",    "1"};
const flags remote{"--mode", "remote-forward", "--micro-batch-size", "4"};
const flags stages{"--mode", "pipeline", "--micro-batches", "4"};

flags placed(const std::string& rules) {
  return {"--placement", rules};
}

std::string weights_of(process_fixture& on) {
  return on.summary()["weights_sha256"];
}

std::string weights_on_cpu(const flags& how) {
  process_fixture on;
  auto run = on.simulate(short_run + how);
  CHECK(run.wait() == 0);
  return weights_of(on);
}

} // namespace

TEST_CASE("each mode makes the CPU's weights on devices") {
  auto wanted = weights_on_cpu({"--micro-batch-size", "4"});
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
    CHECK(weights_of(on) == wanted);
    check_replayed(on); // On the CPU.
  }
}

TEST_CASE("replicas of a worker share its device") {
  flags two{"--replicas", "2"};
  auto wanted = weights_on_cpu(two);
  fake_device device;
  process_fixture on{recorded};
  auto run = on.simulate(short_run + two + flags{"--device", "cuda"});
  CHECK(run.wait() == 0);
  INFO(run.report());
  CHECK(weights_of(on) == wanted);
  check_replayed(on);
}

TEST_CASE("server and workers in processes have their parts on devices") {
  auto wanted = weights_on_cpu({"--micro-batch-size", "4"});
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
  CHECK(weights_of(on) == wanted);
}

TEST_CASE("a server computes its parts on the device that it is given") {
  auto wanted = weights_on_cpu({"--micro-batch-size", "4"});
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
  CHECK(weights_of(on) == wanted);
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
