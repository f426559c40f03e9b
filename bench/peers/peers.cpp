// Two workers and a parameter server in processes, beside PyTorch's own ways to
// train with several processes (peers.py), as they come and with an allocator
// that keeps its memory.

#include "bench/peers/peers.hpp"

#include "apps/scratch_folder.hpp"
#include "bench/topics.hpp"
#include "bench/train/contenders.hpp"
#include "bench/train/wide_network.hpp"
#include "config/text/failure.hpp"

#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

namespace troupe::bench {

using words = std::vector<std::string>;

namespace {

/// For quick runs of peers.py and loops.py: only one process imports torch.
constexpr const char* copied_processes = "TROUPE_BENCH_START=fork";

} // namespace

double rate_of_peer(const std::string& mode, const words& before,
                    const setting& how, const workload& job,
                    const contenders& ours) {
  app::scratch_folder scratch;
  auto out = scratch.path() / "rate";
  auto command = before;
  if (how.quick) {
    words first{"/usr/bin/env", copied_processes};
    command.insert(command.begin(), first.begin(), first.end());
  }
  for (const auto& word :
       {how.python.string(), std::string{"-W"}, std::string{"ignore"},
        std::string{TROUPE_BENCH_PEERS}, mode, job.name,
        std::to_string(ours.batch_size()),
        // Before the timed gradients come a quarter as many that are not timed.
        std::to_string(ours.gradients_of_each() * 4 / 5), out.string(),
        std::to_string(job.workers)})
    command.push_back(word);
  run_child(command);
  return number_in(out);
}

bool begin_with_python(const setting& how, report& out, const char* title) {
  out.begin(title);
  if (how.python.empty())
    std::printf(
      "  left out: name a Python that has torch, with --python FILE\n");
  return !how.python.empty();
}

words with_package(const setting& how) {
  words out{"/usr/bin/env", "PYTHONPATH=" TROUPE_PYTHON_PACKAGE,
            "OMP_NUM_THREADS=1", little_spinning,
            "TROUPE_TRAINER_NODE=" + how.trainer_node.string()};
  if (how.quick)
    out.push_back(copied_processes);
  return out;
}

double number_in(const std::filesystem::path& file) {
  std::ifstream in{file};
  double found = 0;
  if (!(in >> found))
    throw run_error("no number in " + file.string());
  return found;
}

namespace {

/// The file of mimalloc that this program itself runs with; empty if none.
std::string mimalloc_file() {
  std::ifstream in{"/proc/self/maps"};
  for (std::string line; std::getline(in, line);)
    if (line.find("libmimalloc") != std::string::npos)
      return line.substr(line.find('/'));
  return {};
}

/// The beginning of a command whose mimalloc takes memory once and keeps it.
words keeping_memory(const std::string& mimalloc) {
  return {"/usr/bin/env", "LD_PRELOAD=" + mimalloc,
          "MIMALLOC_RESERVE_OS_MEMORY=4294967296", "MIMALLOC_ALLOW_DECOMMIT=0"};
}

} // namespace

std::vector<peer_variant> peer_variants() {
  std::vector<peer_variant> out{{"", "", {}}};
  if (auto file = mimalloc_file(); !file.empty())
    out.push_back({"/mimalloc", ", memory kept", keeping_memory(file)});
  return out;
}

namespace {

/// A way of PyTorch's to train.
struct peer {
  const char* mode;   ///< For peers.py.
  const char* policy; ///< The policy of Troupe that does the same.
  const char* shown;
};

constexpr peer peers[] = {
  {"rpc-async", "async", "a parameter server by RPC"},
  {"rpc-sync", "sync", "a parameter server by RPC"},
  {"ddp", "sync", "DistributedDataParallel (gloo)"},
};

void compare_with_peers(const workload& job, const setting& how, report& out) {
  contenders ours{how, job};
  auto ways = peer_variants();
  std::vector<measured_run> runs{{"async",
                                  [&] {
                                    return ours.in_processes("async");
                                  }},
                                 {"sync", [&] {
                                    return ours.in_processes("sync");
                                  }}};
  for (const auto& way : ways)
    for (const auto& one : peers)
      runs.push_back({one.mode + std::string{way.suffix}, [&] {
                        return rate_of_peer(one.mode, way.before, how, job,
                                            ours);
                      }});
  auto rates = alternate(job.name, runs, how.quick ? 1 : 5, out);
  auto theirs = rates.begin() + 2;
  for (const auto& way : ways)
    for (const auto& one : peers)
      out.add(compare(
        "peers/" + job.name + "/" + one.policy + "/" + one.mode + way.suffix,
        rates[one.policy == std::string{"async"} ? 0 : 1], "1/s",
        std::string{one.shown} + way.shown, *theirs++, better::higher));
}

constexpr const char* title =
  "samples a second of a parameter server and two workers in processes, beside "
  "PyTorch's own ways (target: 1)";

} // namespace

void compare_lenet(const setting& how, report& out) {
  if (begin_with_python(how, out, title))
    compare_with_peers(lenet_run(), how, out);
}

void compare_resnet(const setting& how, report& out) {
  if (begin_with_python(how, out, title))
    compare_with_peers(resnet_run(), how, out);
}

void compare_wide(const setting& how, report& out) {
  if (!begin_with_python(how, out, title))
    return;
  app::scratch_folder scratch;
  auto file = scratch.path() / "wide.pt";
  write_wide_network(file);
  compare_with_peers(wide_run(file), how, out);
}

} // namespace troupe::bench
