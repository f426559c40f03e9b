// Runs whose workers and evaluators compute on a device: the fake one, which
// has the bits of the CPU and reports each access that nothing orders.

#include "tests/process/fake_device.hpp"
#include "tests/process/process_fixture.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <algorithm>
#include <cstdlib>
#include <string>

using namespace troupe::testing;
using Catch::Matchers::ContainsSubstring;

namespace {

const flags on_gpu{"--device", "cuda"};

} // namespace

TEST_CASE("a cluster in one process trains on a device") {
  fake_device device;
  process_fixture on{recorded};
  auto run =
    on.simulate({"--workers", "2", "--epochs", "2", "--device", "cuda:1"});
  CHECK(run.wait() == 0);
  INFO(run.report());
  CHECK(on.summary()["samples_applied"] == 2 * digits);
  check_replayed(on); // On the CPU.
}

TEST_CASE(
  "workers on a device and on the CPU train together, though one dies") {
  fake_device device;
  process_fixture on{recorded};
  auto server = on.listening_server(
    {"--workers", "3", "--policy", "async", "--epochs", "6"});
  auto first = on.worker(on_gpu);
  auto second = on.worker(on_gpu);
  auto third = on.worker();
  first.await("device +cuda:");
  second.await("device +cuda:");
  auto evaluator = on.evaluator({"--device", "auto"}); // Both are taken.
  on.await(server, "a step", is_step(10));
  second.kill();
  CHECK(server.wait() == 0);
  INFO(server.report());
  CHECK(first.wait() == 0);
  CHECK(third.wait() == 0);
  CHECK(evaluator.wait() == 0);
  CHECK(on.summary()["samples_applied"] == 6 * digits);
  check_replayed(on);
}

TEST_CASE(
  "a launched cluster has its workers on devices, its server on the CPU") {
  fake_device device;
  process_fixture on;
  auto run =
    on.start("launch", flags{"launch", "--workers", "2", "--", "--train-dir",
                             on.run().string(), "--epochs", "1"} +
                         on_gpu);
  CHECK(run.wait() == 0);
  INFO(run.report());
  CHECK(run.said("\\[ps\\] device +cpu: a parameter server computes there"));
  CHECK(run.said("\\[worker-0\\] device +cuda:"));
  CHECK(run.said("\\[worker-1\\] device +cuda:"));
  CHECK(on.summary()["samples_applied"] == digits);
}

TEST_CASE("each process of a host gets a device of its own") {
  fake_device device;
  process_fixture on;
  auto first = on.worker(on_gpu);
  auto second = on.worker(on_gpu);
  first.await("device +cuda:");
  second.await("device +cuda:");
  CHECK(first.said("device +cuda:0") != second.said("device +cuda:0"));
  auto third = on.worker(on_gpu);
  CHECK(third.wait() == 1);
  CHECK_THAT(third.err(), ContainsSubstring(
                            "--device cuda: other processes have taken all 2 "
                            "GPUs"));
}

TEST_CASE("a device that cannot be used is one line") {
  fake_device device;
  process_fixture on;
  auto complaint = [&](const flags& more, int status) {
    auto run = on.start("refused", more + flags{"--train-dir", "none"});
    CHECK(run.wait() == status);
    INFO(run.report());
    CHECK(std::ranges::count(run.err(), '\n') == 1);
    CHECK_FALSE(exists(on.home() / "none"));
    return run.err();
  };
  flags simulate{"--simulate", "--epochs", "1"};
  CHECK_THAT(
    complaint(simulate + flags{"--device", "cuda:2"}, 1),
    ContainsSubstring("--device cuda:2: there are 2 GPUs, cuda:0 to cuda:1"));
  CHECK_THAT(complaint(simulate + flags{"--mode", "remote-forward",
                                        "--placement", "*=ps:0:cuda:5"},
                       1),
             ContainsSubstring("[placement]: device cuda:5: there are 2 GPUs"));
  setenv("FAKE_CUDA_DEVICES", "0", 1);
  CHECK_THAT(complaint(simulate + on_gpu, 1),
             ContainsSubstring("no GPU can be used"));
  setenv("TROUPE_CUDA_LIBRARY", "/nowhere/libtorch_cuda.so", 1);
  CHECK_THAT(complaint(simulate + on_gpu, 1),
             ContainsSubstring("a GPU needs LibTorch's CUDA part, which cannot "
                               "be opened: /nowhere/libtorch_cuda.so"));
}

TEST_CASE("where there is no GPU, auto computes on the CPU") {
  process_fixture on;
  auto run = on.simulate({"--epochs", "1", "--device", "auto"});
  CHECK(run.wait() == 0);
  CHECK(run.said("device +cpu"));
}

TEST_CASE("a batch that does not fit the device's memory says what to lower") {
  fake_device device;
  setenv("FAKE_CUDA_MEMORY", "6000000", 1);
  process_fixture on;
  auto run = on.simulate(
    flags{"--epochs", "1", "--workers", "1", "--batch-size", "256"} + on_gpu);
  CHECK(run.wait() == 1);
  INFO(run.report());
  CHECK_THAT(run.err(), ContainsSubstring("lower --batch-size"));
}

TEST_CASE("devices lists the CPU and the GPUs, or says why none can be used") {
  process_fixture on;
  auto without = on.start("without", {"devices"});
  CHECK(without.wait() == 0);
  CHECK(without.said("cpu +[0-9]+ cores"));
  CHECK(without.said("a GPU needs LibTorch's CUDA part"));
  fake_device device;
  auto with = on.start("with", {"devices"});
  CHECK(with.wait() == 0);
  CHECK(with.said("cuda:0 "));
  CHECK(with.said("cuda:1 "));
}

TEST_CASE("a run in fp16 counts its overflows") {
  fake_device device;
  process_fixture on;
  auto run = on.simulate(
    flags{"--autocast", "fp16", "--epochs", "1", "--replicas", "2"} + on_gpu);
  CHECK(run.wait() == 0);
  INFO(run.report());
  CHECK(on.summary()["samples_applied"] == digits);
  CHECK(on.summary()["gradients_refused"] == 0);
  CHECK(on.summary()["fp16_overflows"].is_number_unsigned());
  auto lines = read_metrics(on.run());
  auto update = std::ranges::find_if(lines, is_step(1));
  REQUIRE(update != lines.end());
  CHECK((*update)["metrics"]["fp16/scale"] == 65536);
  CHECK((*update)["metrics"].contains("fp16/overflows"));
}

TEST_CASE("fp16 without a GPU is one line") {
  process_fixture on;
  auto alone =
    on.simulate({"--autocast", "fp16", "--epochs", "1", "--device", "auto"});
  CHECK(alone.wait() == 1);
  CHECK_THAT(alone.err(), ContainsSubstring("--autocast fp16 needs a GPU"));
  CHECK(std::ranges::count(alone.err(), '\n') == 1);
  auto server = on.listening_server(
    {"--workers", "1", "--autocast", "fp16", "--epochs", "1"});
  auto worker = on.worker();
  CHECK(worker.wait() == 1);
  CHECK_THAT(worker.err(), ContainsSubstring("--autocast fp16 needs a GPU"));
  server.kill();
}

TEST_CASE("auto measures bfloat16 on the device") {
  fake_device device;
  process_fixture on;
  auto run = on.simulate(
    flags{"--autocast", "auto", "--workers", "1", "--max-steps", "2"} + on_gpu);
  CHECK(run.wait() == 0);
  INFO(run.report());
  CHECK(run.said("autocast +(bf16|none): steps are [0-9.]+ times as fast"));
}
