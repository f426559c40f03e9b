// Two workers and a parameter server in processes, beside PyTorch's own ways to
// train with two processes (peers.py), as they come and with an allocator that
// keeps its memory.

#include "apps/scratch_folder.hpp"
#include "bench/topics.hpp"
#include "bench/train/contenders.hpp"
#include "bench/train/wide_network.hpp"
#include "config/text/failure.hpp"

#include <cstdio>
#include <fstream>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::bench {

namespace {

using words = std::vector<std::string>;

/// The file of mimalloc that this program itself runs with; empty if none.
std::string mimalloc_file() {
  std::ifstream in{"/proc/self/maps"};
  for (std::string line; std::getline(in, line);)
    if (line.find("libmimalloc") != std::string::npos)
      return line.substr(line.find('/'));
  return {};
}

/// What makes mimalloc take memory once and keep it.
words keeping_memory(const std::string& mimalloc) {
  return {"/usr/bin/env", "LD_PRELOAD=" + mimalloc,
          "MIMALLOC_RESERVE_OS_MEMORY=4294967296", "MIMALLOC_ALLOW_DECOMMIT=0"};
}

/// A way of PyTorch's to train.
struct peer {
  const char* mode;   ///< For peers.py.
  const char* policy; ///< Of Troupe, that does the same.
  const char* shown;
};

constexpr peer peers[] = {
  {"rpc-async", "async", "a parameter server by RPC"},
  {"rpc-sync", "sync", "a parameter server by RPC"},
  {"ddp", "sync", "DistributedDataParallel (gloo)"},
};

/// @param before What the command begins with: its environment.
double rate_of_peer(const peer& one, words before, const setting& how,
                    const workload& what) {
  app::scratch_folder scratch;
  contenders same{how, what};
  auto out = scratch.path() / "rate";
  words command{how.python.string(), "-W", "ignore", TROUPE_BENCH_PEERS,
                one.mode, what.name, std::to_string(same.batch_size()),
                // A quarter comes before those that are timed.
                std::to_string(same.gradients_of_each() * 4 / 5), out.string()};
  before.insert(before.end(), command.begin(), command.end());
  run_child(before);
  std::ifstream in{out};
  double found = 0;
  if (!(in >> found))
    throw run_error("no rate in " + out.string());
  return found;
}

void compare_with_peers(const workload& what, const setting& how, report& out) {
  struct entry {
    std::string name;   ///< In the figures; of Troupe the policy.
    std::string policy; ///< Of Troupe, to compare with.
    std::string shown;
    std::function<double()> rate;
    std::vector<double> found;
  };
  contenders ours{how, what};
  std::vector<entry> all;
  for (const char* policy : {"async", "sync"})
    all.push_back({policy,
                   policy,
                   {},
                   [&, policy] { return ours.in_processes(policy); },
                   {}});
  auto add = [&](const std::string& suffix, const std::string& shown,
                 const words& before) {
    for (const auto& one : peers)
      all.push_back(
        {one.policy + ("/" + std::string{one.mode}) + suffix,
         one.policy,
         one.shown + shown,
         [&, before] { return rate_of_peer(one, before, how, what); },
         {}});
  };
  add("", "", {});
  if (auto file = mimalloc_file(); !file.empty())
    add("/mimalloc", ", memory kept", keeping_memory(file));
  auto rounds = how.quick ? 1 : 5;
  for (int round = 1; round <= rounds; ++round)
    for (auto& one : all) {
      out.progress(what.name + ", " + one.name + ", round " +
                   std::to_string(round) + " of " + std::to_string(rounds));
      one.found.push_back(one.rate());
    }
  for (size_t i = 2; i < all.size(); ++i) {
    const auto& troupe = all[i].policy == "async" ? all[0] : all[1];
    out.add(compare("peers/" + what.name + "/" + all[i].name,
                    median(troupe.found), "1/s", all[i].shown,
                    median(all[i].found), better::higher));
  }
}

/// Whether it can be done; says so if not.
bool begin(const setting& how, report& out) {
  out.begin("samples a second of a parameter server and two workers in "
            "processes, beside PyTorch's own ways (target: 1)");
  if (how.python.empty())
    std::printf(
      "  left out: name a Python that has torch, with --python FILE\n");
  return !how.python.empty();
}

} // namespace

void compare_lenet(const setting& how, report& out) {
  if (begin(how, out))
    compare_with_peers(lenet_run(), how, out);
}

void compare_resnet(const setting& how, report& out) {
  if (begin(how, out))
    compare_with_peers(resnet_run(), how, out);
}

void compare_wide(const setting& how, report& out) {
  if (!begin(how, out))
    return;
  app::scratch_folder scratch;
  auto file = scratch.path() / "wide.pt";
  write_wide_network(file);
  compare_with_peers(wide_run(file), how, out);
}

} // namespace troupe::bench
