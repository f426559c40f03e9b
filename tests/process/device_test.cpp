// Runs whose workers and evaluators compute on a device: the fake one, which
// has the bits of the CPU and reports each access that nothing orders.

#include "tests/process/fake_device.hpp"
#include "tests/process/peers.hpp"
#include "tests/process/process_fixture.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

using namespace troupe::testing;
using Catch::Matchers::ContainsSubstring;

namespace {

/// Of the weights of a server on a device, beside those of its replay.
constexpr double rounding = 1e-4;

/// Steps so small that other rounding does not lead far: it may decide which
/// number of a pool is the largest, and then a gradient differs.
const flags small_steps{"--lr", "0.001", "--momentum", "0"};

/// The same with optimisers that divide by roots of small squares.
constexpr double adaptive_rounding = 1e-2;

const flags on_gpu{"--device", "cuda"};

} // namespace

TEST_CASE("a cluster in one process trains on a device") {
  fake_device device;
  process_fixture on{recorded};
  auto run = on.simulate(small_steps + flags{"--workers", "2", "--epochs", "2",
                                             "--device", "cuda:1"});
  CHECK(run.wait() == 0);
  INFO(run.report());
  CHECK(on.summary()["samples_applied"] == 2 * digits);
  check_replayed(on, rounding); // On the CPU.
}

TEST_CASE("a server on a device serves workers of all kinds over all paths") {
  fake_device device;
  process_fixture on{recorded};
  auto server = on.listening_server(
    {"--workers", "3", "--policy", "sync", "--optimizer", "adam", "--ema-decay",
     "0.9", "--clip-norm", "1", "--epochs", "2", "--device", "cuda:1"});
  CHECK(server.said("device +cuda:1"));
  auto evaluator = on.evaluator();
  auto near = on.worker({"--device", "cuda:1"}); // As the server: it is named.
  auto on_host = on.worker();
  auto far = on.worker({"--transport", "stream"});
  check_end(server, 0);
  check_end(near, 0);
  check_end(on_host, 0);
  check_end(far, 0);
  check_end(evaluator, 0);
  CHECK(on.summary()["samples_applied"] == 2 * digits);
  check_replayed(on, adaptive_rounding);
  // A server on the CPU goes on from there.
  auto next = on.simulate({"--resume", "auto", "--epochs", "3"});
  check_end(next, 0);
  CHECK(on.summary()["samples_applied"] == 3 * digits);
}

TEST_CASE("peers keep their shards on the devices that compute") {
  fake_device device;
  process_fixture on{recorded};
  auto peers = start_peers(
    on, 2, small_steps + flags{"--epochs", "2", "--device", "cuda"});
  check_ends_of(peers, 0);
  CHECK(on.summary()["samples_applied"] == 2 * digits);
  check_replayed(on, rounding);
}

TEST_CASE("a server whose device fails ends with a line") {
  fake_device device;
  process_fixture on;
  setenv("FAKE_CUDA_FAILS_AFTER", "1000", 1);
  auto server = on.listening_server({"--workers", "1", "--device", "cuda:0"});
  unsetenv("FAKE_CUDA_FAILS_AFTER");
  auto worker = on.worker();
  check_end(server, 1);
  INFO(server.report());
  CHECK_THAT(server.err(),
             ContainsSubstring("this process cannot use the GPU any more"));
  CHECK(std::ranges::count(server.err(), '\n') == 1);
  worker.kill(); // It waits for the server's next life.
}

TEST_CASE("of two shards of a server one computes on a device") {
  fake_device device;
  process_fixture on{recorded};
  sharded_server server{on,
                        2,
                        {"--workers", "1", "--max-steps", "8", "--lr", "0.001",
                         "--optimizer", "lamb", "--device", "cuda:0"}};
  auto worker = on.worker();
  server.check_ends(0);
  check_end(worker, 0);
  CHECK(on.summary()["steps"] == 8);
  check_replayed(on, adaptive_rounding);
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
  auto again = on.start("again", {"--replay", (on.run() / "tape-1.pb").string(),
                                  "--train-dir", (on.home() / "again").string(),
                                  "--max-steps", "2"});
  check_end(again, 0);
  CHECK(again.said("worker [0-2] computed on cuda:[01], a replay does on the "
                   "CPU"));
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
  unsetenv("CUDA_VISIBLE_DEVICES");
  CHECK_THAT(complaint(simulate + on_gpu, 1),
             ContainsSubstring("there is no device; see what nvidia-smi says"));
  unsetenv("FAKE_CUDA_DEVICES");
  setenv("CUDA_VISIBLE_DEVICES", "", 1);
  CHECK_THAT(complaint(simulate + on_gpu, 1),
             ContainsSubstring("no GPU can be used (CUDA: "
                               "CUDA_VISIBLE_DEVICES= leaves no device; unset "
                               "it), or use --device cpu"));
  setenv("FAKE_CUDA_DRIVER", "12040", 1);
  CHECK_THAT(complaint(simulate + on_gpu, 1),
             ContainsSubstring("the driver is for CUDA 12.4, older than the "
                               "runtime 13.0; install a newer driver"));
  setenv("FAKE_CUDA_DRIVER", "0", 1);
  CHECK_THAT(complaint(simulate + on_gpu, 1),
             ContainsSubstring("there is no driver; install NVIDIA's"));
  setenv("TROUPE_CUDA_LIBRARY", "/nowhere/libtorch_cuda.so", 1);
  CHECK_THAT(complaint(simulate + on_gpu, 1),
             ContainsSubstring("a GPU needs LibTorch's CUDA part, which cannot "
                               "be opened: /nowhere/libtorch_cuda.so"));
}

TEST_CASE("another release of PyTorch is one line with both") {
  namespace fs = std::filesystem;
  fake_device device;
  process_fixture on;
  auto torch = on.home() / "torch";
  fs::create_directories(torch / "lib");
  fs::create_symlink(FAKE_CUDA, torch / "lib" / "libtorch_cuda.so");
  setenv("TROUPE_CUDA_LIBRARY", (torch / "lib" / "libtorch_cuda.so").c_str(),
         1);
  auto of_release = [&](const std::string& release) {
    std::ofstream{torch / "version.py"} << "from typing import Optional\n"
                                        << "__version__ = '" << release
                                        << "'\n";
    return on.start("release",
                    flags{"--simulate", "--workers", "1", "--max-steps", "1",
                          "--evaluator", "false", "--train-dir",
                          (on.home() / "run").string()} +
                      on_gpu);
  };
  auto other = of_release("2.9.1+cu128");
  CHECK(other.wait() == 1);
  INFO(other.report());
  CHECK(std::ranges::count(other.err(), '\n') == 1);
  CHECK_THAT(other.err(), ContainsSubstring(
                            "a GPU needs LibTorch's CUDA part of release "
                            "2.11.0, which this program is built with, but"));
  CHECK_THAT(other.err(), ContainsSubstring("is of 2.9.1+cu128; name another "
                                            "one with TROUPE_CUDA_LIBRARY"));
  auto same = of_release("2.11.0+cu130");
  CHECK(same.wait() == 0);
}

TEST_CASE(
  "a worker whose device fails ends with a line, and the others go on") {
  fake_device device;
  process_fixture on{recorded};
  auto server = on.listening_server(
    {"--workers", "2", "--policy", "async", "--epochs", "4"});
  setenv("FAKE_CUDA_FAILS_AFTER", "1500", 1);
  auto failing = on.worker(on_gpu);
  unsetenv("FAKE_CUDA_FAILS_AFTER");
  auto other = on.worker(on_gpu);
  check_end(failing, 1);
  CHECK(std::ranges::count(failing.err(), '\n') == 1);
  CHECK_THAT(failing.err(),
             ContainsSubstring("CUDA error: unspecified launch failure"));
  CHECK(server.wait() == 0);
  INFO(server.report());
  CHECK(other.wait() == 0);
  CHECK(on.summary()["samples_applied"] == 4 * digits);
  CHECK(std::ranges::any_of(
    on.metrics(), [](const json& line) { return line["kind"] == "left"; }));
  check_replayed(on);
}

TEST_CASE("a device that fails ends a run with a line, whenever that is") {
  fake_device device;
  auto more = GENERATE(flags{}, flags{"--ema-decay", "0.9"});
  // While networks are made, memory is taken, gradients and scores computed.
  for (const auto* calls :
       {"1", "30", "45", "50", "55", "60", "110", "170", "400"}) {
    process_fixture on;
    setenv("FAKE_CUDA_FAILS_AFTER", calls, 1);
    auto run =
      on.simulate(flags{"--workers", "1", "--epochs", "3", "--eval-freq", "1"} +
                  on_gpu + more);
    CHECK(run.wait() == 1);
    INFO("after " << calls << " calls: " << run.report());
    CHECK(std::ranges::count(run.err(), '\n') == 1);
    CHECK_THAT(run.err(),
               ContainsSubstring("CUDA error: unspecified launch failure"));
    CHECK_FALSE(run.said("unhandled exception"));
  }
}

TEST_CASE("an evaluator whose device fails ends with a line, and the run is "
          "completed") {
  fake_device device;
  process_fixture on;
  auto server = on.listening_server(
    {"--workers", "1", "--epochs", "2", "--eval-freq", "10"});
  setenv("FAKE_CUDA_FAILS_AFTER", "40", 1);
  auto evaluator = on.evaluator(on_gpu);
  unsetenv("FAKE_CUDA_FAILS_AFTER");
  auto worker = on.worker(on_gpu);
  check_end(evaluator, 1);
  CHECK_THAT(evaluator.err(),
             ContainsSubstring("evaluating failed: CUDA error: unspecified "
                               "launch failure; this process cannot use the "
                               "GPU any more"));
  CHECK(std::ranges::count(evaluator.err(), '\n') == 1);
  CHECK(server.wait() == 0);
  CHECK(worker.wait() == 0);
  CHECK(on.summary()["samples_applied"] == 2 * digits);
}

TEST_CASE("where there is no GPU, auto computes on the CPU") {
  fake_device device;
  setenv("TROUPE_CUDA_LIBRARY", "/nowhere/libtorch_cuda.so", 1);
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
  fake_device device;
  process_fixture on;
  setenv("TROUPE_CUDA_LIBRARY", "/nowhere/libtorch_cuda.so", 1);
  auto without = on.start("without", {"devices"});
  CHECK(without.wait() == 0);
  CHECK(without.said("cpu +[0-9]+ cores"));
  CHECK(without.said("a GPU needs LibTorch's CUDA part"));
  setenv("TROUPE_CUDA_LIBRARY", FAKE_CUDA, 1);
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
