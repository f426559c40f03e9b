// Workers whose gradients Python computes (loops.py), beside loops in Python
// that share nothing, beside C++ workers, and beside PyTorch's own ways.

#include "apps/scratch_folder.hpp"
#include "bench/peers/peers.hpp"
#include "bench/topics.hpp"
#include "bench/train/contenders.hpp"
#include "bench/train/wide_network.hpp"
#include "bench/transport/links.hpp"

#include <string>
#include <vector>

namespace troupe::bench {

namespace {

using words = std::vector<std::string>;

/// The figure that a run of loops.py finds.
double loops(const setting& how, const words& arguments) {
  app::scratch_folder scratch;
  auto out = scratch.path() / "found";
  auto command = with_package(how);
  for (const auto& word :
       {how.python.string(), std::string{"-W"}, std::string{"ignore"},
        std::string{TROUPE_BENCH_LOOPS}})
    command.push_back(word);
  command.insert(command.end(), arguments.begin(), arguments.end());
  command.push_back(out.string());
  run_child(command);
  return number_in(out);
}

double seconds_to_import(const setting& how, const std::string& module) {
  auto command = with_package(how);
  for (const auto& word : {how.python.string(), std::string{"-c"}, module})
    command.push_back(word);
  return run_child(command).time.seconds;
}

/// Seconds of a round trip over shared memory in C++, with a server that only
/// adds.
double round_trip(size_t bytes, size_t count) {
  auto link = linked("shm", bytes, 1, service::add);
  link->run(1 + count / 10);
  return measure([&] { link->run(count); }).seconds /
         static_cast<double>(count);
}

/// Seconds for which a C++ worker waits after a gradient, in a run like that
/// of a Python worker.
double wait_in_run(const setting& how, int64_t width, size_t count) {
  app::scratch_folder scratch;
  auto network = scratch.path() / "network.pt";
  write_wide_network(network, width);
  auto run = wide_run(network);
  run.workers = 1;
  run.gradients = run.quick_gradients = count;
  run.flags = {"--momentum", "0"};
  run.environment = {little_spinning};
  return contenders{how, run}.wait_for_weights("async");
}

void compare_steps(const setting& how, report& out) {
  struct size {
    const char* name;
    size_t bytes;
    int64_t width; // Of a network with about so many bytes.
    size_t count;
  };
  for (const auto& what : {size{"4KB", 4096, 1, 2000},
                           size{"45MB", size_t{11'173'962} * 4, 14000, 60}}) {
    auto count = how.quick ? 3 : what.count;
    auto name = std::string{"python/step/"} + what.name;
    auto step = [&](const char* mode) {
      return loops(
        how, {mode, std::to_string(what.bytes), "1", std::to_string(count)});
    };
    auto found = alternate(name,
                           {{"step()",
                             [&] {
                               return step("step");
                             }},
                            {"step(), views",
                             [&] {
                               return step("views");
                             }},
                            {"a round trip",
                             [&] {
                               return round_trip(what.bytes, count);
                             }},
                            {"a C++ worker in a run",
                             [&] {
                               return wait_in_run(how, what.width, count);
                             }}},
                           how.quick ? 1 : 5, out);
    constexpr double micro = 1e6;
    for (size_t i : {0, 1}) {
      auto which = name + (i == 1 ? "/views" : "");
      out.add(compare(which, micro * found[i], "us",
                      "a round trip over shared memory in C++",
                      micro * found[2], better::lower));
      out.add(compare(which + "/worker", micro * found[i], "us",
                      "a C++ worker that waits for weights in such a run",
                      micro * found[3], better::lower));
    }
  }
}

} // namespace

void measure_python_lenet(const setting& how, report& out) {
  if (!begin_with_python(
        how, out,
        "samples a second of two Python workers with LeNet "
        "(targets: 0.95 of loops under async, 0.97 of C++ workers "
        "under sync, 1 of PyTorch's ways)"))
    return;
  const auto& what = lenet_run();
  contenders ours{how, what};
  auto steps = std::to_string(ours.gradients_of_each() * 4 / 5);
  std::vector<measured_run> runs;
  for (std::string mode : {"async", "sync", "plain"})
    runs.push_back({mode, [&, mode] {
                      return loops(how,
                                   {mode, what.name,
                                    std::to_string(ours.batch_size()), steps});
                    }});
  for (std::string policy : {"async", "sync"})
    runs.push_back({policy + " in C++", [&, policy] {
                      return ours.in_processes(policy);
                    }});
  for (std::string peer : {"rpc-async", "rpc-sync", "ddp"})
    runs.push_back({peer, [&, peer] {
                      return rate_of_peer(peer, {}, how, what, ours);
                    }});
  auto rates = alternate(what.name, runs, how.quick ? 1 : 3, out);
  auto add = [&](const char* name, double rate, const char* reference,
                 double its) {
    out.add(compare(std::string{"python/lenet/"} + name, rate, "1/s", reference,
                    its, better::higher));
  };
  add("async/loops", rates[0], "two Python loops that share nothing", rates[2]);
  add("async/cpp", rates[0], "two C++ workers", rates[3]);
  add("async/rpc", rates[0], "a parameter server by RPC", rates[5]);
  add("sync/loops", rates[1], "two Python loops that share nothing", rates[2]);
  add("sync/cpp", rates[1], "two C++ workers", rates[4]);
  add("sync/rpc", rates[1], "a parameter server by RPC", rates[6]);
  add("sync/ddp", rates[1], "DistributedDataParallel (gloo)", rates[7]);
}

void measure_python_steps(const setting& how, report& out) {
  if (begin_with_python(
        how, out,
        "a step of Python without computing (targets: 4 KB 100 us "
        "more than a C++ worker, 45 MB 0.6 of its rate, 0.8 with views)"))
    compare_steps(how, out);
}

void measure_python_start(const setting& how, report& out) {
  if (!begin_with_python(how, out,
                         "seconds until Python trains (targets: 0.05 s beyond "
                         "torch; 2 s to the first step beyond it)"))
    return;
  auto found = alternate("start",
                         {{"import troupe",
                           [&] {
                             return seconds_to_import(how, "import troupe");
                           }},
                          {"import torch",
                           [&] {
                             return seconds_to_import(how, "import torch");
                           }},
                          {"launch",
                           [&] {
                             return loops(how, {"launch", "-", "1", "1"});
                           }}},
                         how.quick ? 1 : 7, out);
  out.add(compare("python/start/import", found[0], "s", "import torch alone",
                  found[1], better::lower));
  out.add(compare("python/start/first_step", found[2], "s", "target", 2,
                  better::lower));
}

} // namespace troupe::bench
