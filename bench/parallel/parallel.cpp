// Networks in segments, beside LibTorch alone and beside workers that each
// compute the whole network.

#include "bench/peers/peers.hpp"
#include "bench/topics.hpp"
#include "bench/train/contenders.hpp"

#include <string>
#include <vector>

namespace troupe::bench {

namespace {

using words = std::vector<std::string>;

constexpr const char* with_mimalloc = "troupe_bench_loop";

/// The network and data of the tutorial on PyTorch's RPC parameter server.
workload mnist_run(const words& flags) {
  workload out{"mnist_net", "mnist_net", "digits", 64, 600, 8, 8, 7};
  out.flags = flags;
  return out;
}

/// A run with nearly nothing to compute, so that a step is its messages.
workload tiny_run(const words& flags) {
  workload out{"lenet", "lenet", "digits", 1, 4000, 1, 10, 7};
  out.workers = 1;
  out.flags = flags;
  return out;
}

/// A pipeline whose stages cost the same.
workload pipeline_run(uint64_t workers, const words& flags) {
  workload out{"resnet18",
               "resnet18_cifar",
               "synthetic(shape=3x32x32,classes=10,samples=2000)",
               64,
               16 * workers,
               8,
               2 * workers,
               5};
  out.workers = workers;
  out.flags = flags;
  return out;
}

const words remote{"--mode", "remote-forward"};

} // namespace

void measure_remote_forward(const setting& how, report& out) {
  out.begin("samples a second of two trainers whose network lives on the "
            "server: mnist_net, batch 64 (target: 0.95 of two loops)");
  auto what = mnist_run(remote);
  contenders all{how, what};
  std::vector<measured_run> runs{{"remote/threads",
                                  [&] {
                                    return all.in_one_process("async");
                                  }},
                                 {"remote/processes",
                                  [&] {
                                    return all.in_processes("async");
                                  }},
                                 {"loops", [&] {
                                    return all.loops_in_one_process(
                                      with_mimalloc, "as_troupe");
                                  }}};
  if (!how.python.empty())
    runs.push_back({"rpc-remote", [&] {
                      return rate_of_peer("rpc-remote", {}, how, what, all);
                    }});
  auto rates = alternate(what.name, runs, how.quick ? 1 : what.rounds, out);
  const char* names[] = {"parallel/remote_forward/threads",
                         "parallel/remote_forward/processes"};
  for (size_t i = 0; i < 2; ++i) {
    out.add(compare(names[i], rates[i], "1/s", "two loops that share nothing",
                    rates[2], better::higher));
    if (!how.python.empty())
      out.add(compare(names[i] + std::string{"/rpc"}, rates[i], "1/s",
                      "PyTorch's RPC, by its tutorial", rates[3],
                      better::higher));
  }
}

void measure_remote_control(const setting& how, report& out) {
  out.begin("what a step costs more when the network lives on the server: "
            "LeNet, batch 1 (target: below 0.5 ms)");
  auto there = tiny_run(remote);
  auto here = tiny_run({});
  contenders far{how, there};
  contenders near{how, here};
  auto rates = alternate(there.name,
                         {{"remote",
                           [&] {
                             return far.in_one_process("async");
                           }},
                          {"local",
                           [&] {
                             return near.in_one_process("async");
                           }}},
                         how.quick ? 1 : there.rounds, out);
  out.add(compare("parallel/remote_control/step", 1000 / rates[0], "ms",
                  "each worker its own network", 1000 / rates[1],
                  better::lower));
}

void measure_pipeline(const setting& how, report& out) {
  constexpr double stages = 2;
  constexpr double micro_batches = 8;
  out.begin("samples a second of a pipeline of two stages and eight "
            "micro-batches: ResNet-18 at 32x32, batch 64 (target: 0.9)");
  auto piped = pipeline_run(
    1, {"--mode", "pipeline", "--stages", "2", "--micro-batches", "8"});
  // The whole network gets one thread, as does each stage and each loop.
  auto whole = pipeline_run(
    1, {"--threads", "1", "--micro-batch-size", how.quick ? "1" : "8"});
  auto loops = pipeline_run(2, {});
  auto loop = pipeline_run(1, {});
  contenders pipeline{how, piped};
  contenders unsplit{how, whole};
  contenders two{how, loops};
  contenders one{how, loop};
  auto rates =
    alternate(piped.name,
              {{"pipeline",
                [&] {
                  return pipeline.in_one_process("sync");
                }},
               {"unsplit, same micro-batches, one thread",
                [&] {
                  return unsplit.in_one_process("sync");
                }},
               {"two loops",
                [&] {
                  return two.loops_in_one_process(with_mimalloc, "as_troupe");
                }},
               {"one loop",
                [&] {
                  return one.loops_in_one_process(with_mimalloc, "as_troupe");
                }}},
              how.quick ? 1 : piped.rounds, out);
  auto cores = rates[2] / rates[3];
  auto best = micro_batches / (micro_batches + stages - 1) * cores;
  out.add(compare("parallel/pipeline/speed_up", rates[0] / rates[1], "x",
                  "M/(M+K-1) of two loops over one", best, better::higher));
  out.add(compare("parallel/pipeline/rate", rates[0], "1/s",
                  "M/(M+K-1) of two loops over one, of one loop",
                  best * rates[3], better::higher));
}

} // namespace troupe::bench
