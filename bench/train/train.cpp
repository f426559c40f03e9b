// Two workers and a parameter server, beside two loops with LibTorch alone that
// share nothing.

#include "apps/scratch_folder.hpp"
#include "bench/topics.hpp"
#include "bench/train/contenders.hpp"
#include "bench/train/wide_network.hpp"

#include <string>
#include <vector>

namespace troupe::bench {

namespace {

constexpr const char* with_mimalloc = "troupe_bench_loop";
constexpr const char* with_glibc = "troupe_bench_loop_glibc";

void measure_training(const workload& job, const setting& how, report& out) {
  contenders all{how, job};
  std::vector<measured_run> runs{
    {"async/threads",
     [&] {
       return all.in_one_process("async");
     }},
    {"async/processes",
     [&] {
       return all.in_processes("async");
     }},
    {"sync/threads",
     [&] {
       return all.in_one_process("sync");
     }},
    {"sync/processes",
     [&] {
       return all.in_processes("sync");
     }},
    {"threads",
     [&] {
       return all.loops_in_one_process(with_mimalloc, "as_troupe");
     }},
    {"processes",
     [&] {
       return all.loops_in_processes(with_mimalloc, "as_troupe");
     }},
  };
  if (job.plain)
    runs.push_back({"plain", [&] {
                      return all.loops_in_processes(with_glibc, "plain");
                    }});
  auto rates = alternate(job.name, runs, how.quick ? 1 : job.rounds, out);
  for (size_t i = 0; i < 4; ++i) {
    auto name = "train/" + job.name + "/" + runs[i].name;
    auto same = i % 2 == 0 ? 4u : 5u;
    out.add(compare(name, rates[i], "1/s", "two loops, same set-up",
                    rates[same], better::higher));
    if (job.plain)
      out.add(compare(name + "/plain", rates[i], "1/s",
                      "two loops, glibc and contiguous", rates[6],
                      better::higher));
  }
  if (job.faults)
    out.add(compare("train/" + job.name + "/page_faults",
                    all.faults_in_one_process("async"), "1/grad.",
                    "two loops, glibc and contiguous",
                    all.faults_of_loops(with_glibc, "plain"), better::lower));
}

/// Measures the memory of a server with SGD and momentum whose workers read a
/// version each and have one gradient waiting each. The memory that any server
/// needs is measured with LeNet, and left out.
void measure_memory(const setting& how, report& out) {
  constexpr double versions = 2;
  constexpr double slots = 1;
  constexpr double workers = 2;
  constexpr double model = 11'173'962 * 4. / (1 << 20);
  auto most = (versions + slots + workers + workers) * model;
  out.progress("memory of a parameter server");
  auto small = contenders{how, lenet_run()}.memory_of_server("async");
  auto large = contenders{how, resnet_run()}.memory_of_server("async");
  out.add(compare("train/resnet18/server_memory", large - small, "MiB",
                  "2 versions, slots, one version and gradient a worker", most,
                  better::lower));
}

/// An epoch of the dataset has whole rounds.
void measure_rounds(workload job, const char* dataset, uint64_t steps,
                    uint64_t rounds, const setting& how, report& out) {
  job.dataset = dataset;
  job.local_steps = how.quick ? 2 : steps;
  job.gradients = steps * rounds;
  out.begin("two workers, " + job.name + ": rounds of " +
            std::to_string(job.local_steps) +
            " local steps, SGD with momentum, exchange included (target: 0.98 "
            "of the same two loops)");
  contenders all{how, job};
  contenders::cpu_costs cpu;
  auto medians =
    alternate(job.name,
              {{"local steps",
                [&] {
                  return all.in_one_process("async");
                }},
               {"loops",
                [&] {
                  return all.loops_in_one_process(with_mimalloc, "as_troupe");
                }},
               {"a worker and a loop on one core",
                [&] {
                  cpu =
                    all.cpu_on_one_core("async", with_mimalloc, "as_troupe");
                  return cpu.troupe;
                }},
               {"that loop",
                [&] {
                  return cpu.loop;
                }}},
              how.quick ? 1 : job.rounds, out);
  auto name = "train/local_steps/" + job.name;
  out.add(compare(name, medians[0], "1/s", "two loops, same set-up", medians[1],
                  better::higher));
  out.add(compare(name + "/cpu", 1000 * medians[2], "ms/step",
                  "a loop on its core", 1000 * medians[3], better::lower));
}

/// One worker in a process of its own, so that none waits for another.
void measure_exchange_of(workload job, const setting& how, report& out) {
  job.workers = 1;
  job.gradients = 200;
  auto local = job;
  local.local_steps = 1;
  contenders rounds{how, local};
  contenders gradients{how, job};
  auto medians = alternate(job.name,
                           {{"rounds of one step",
                             [&] {
                               return rounds.wait_for_weights("async");
                             }},
                            {"gradients",
                             [&] {
                               return gradients.wait_for_weights("async");
                             }}},
                           how.quick ? 1 : job.rounds, out);
  out.add(compare("train/local_steps/exchange/" + job.name, 1000 * medians[0],
                  "ms", "a push of a gradient", 1000 * medians[1],
                  better::lower));
}

} // namespace

void measure_lenet(const setting& how, report& out) {
  out.begin("samples a second of two workers: LeNet, batch 64 (targets: 0.97 "
            "of the same two loops, 1.45 of plain ones)");
  measure_training(lenet_run(), how, out);
}

void measure_resnet(const setting& how, report& out) {
  out.begin("samples a second of two workers: ResNet-18 at 32x32, batch 32 "
            "(target: 0.97 of the same two loops)");
  measure_training(resnet_run(), how, out);
  measure_memory(how, out);
}

void measure_wide(const setting& how, report& out) {
  out.begin("samples a second of two workers: a wide network of 11.1 M "
            "parameters, batch 8 (target: 0.92 of the same two loops)");
  app::scratch_folder scratch;
  auto file = scratch.path() / "wide.pt";
  write_wide_network(file);
  measure_training(wide_run(file), how, out);
}

void measure_rounds_of_lenet(const setting& how, report& out) {
  measure_rounds(lenet_run(),
                 "synthetic(shape=1x28x28,classes=10,samples=19200)", 50, 20,
                 how, out);
}

void measure_rounds_of_resnet(const setting& how, report& out) {
  measure_rounds(resnet_run(),
                 "synthetic(shape=3x32x32,classes=10,samples=3840)", 10, 4, how,
                 out);
}

void measure_rounds_of_wide(const setting& how, report& out) {
  app::scratch_folder scratch;
  auto file = scratch.path() / "wide.pt";
  write_wide_network(file);
  measure_rounds(wide_run(file),
                 "synthetic(shape=1x28x28,classes=10,samples=2000)", 50, 10,
                 how, out);
}

void measure_exchange(const setting& how, report& out) {
  out.begin("ms for which a worker in a process waits for new weights after a "
            "round of one local step (target: as after a gradient)");
  measure_exchange_of(lenet_run(), how, out);
  app::scratch_folder scratch;
  auto file = scratch.path() / "wide.pt";
  write_wide_network(file);
  measure_exchange_of(wide_run(file), how, out);
}

} // namespace troupe::bench
