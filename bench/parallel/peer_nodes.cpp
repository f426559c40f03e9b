// Peers, each a worker and a shard, beside a server with as many workers, and
// beside DistributedDataParallel, whose all-reduce moves the same bytes.

#include "apps/scratch_folder.hpp"
#include "bench/peers/peers.hpp"
#include "bench/topics.hpp"
#include "bench/train/contenders.hpp"
#include "bench/train/wide_network.hpp"

#include <string>
#include <vector>

namespace troupe::bench {

namespace {

figure beside_star(const std::string& name, double peers, double star) {
  return compare("parallel/" + name + "/star", peers, "1/s",
                 "a server and as many workers", star, better::higher);
}

/// Compares them under `sync`.
/// @param name The rest of the figure's name, behind "parallel/peers/".
void compare_peers(const std::string& name, const workload& job,
                   const setting& how, report& out) {
  contenders ours{how, job};
  std::vector<measured_run> runs{{"peers",
                                  [&] {
                                    return ours.as_peers("sync");
                                  }},
                                 {"star", [&] {
                                    return ours.in_processes("sync");
                                  }}};
  auto ways = peer_variants();
  if (how.python.empty())
    ways.clear();
  for (const auto& way : ways)
    runs.push_back({std::string{"ddp"} + way.suffix, [&] {
                      return rate_of_peer("ddp", way.before, how, job, ours);
                    }});
  auto rates = alternate(name, runs, how.quick ? 1 : 5, out);
  out.add(beside_star("peers/" + name, rates[0], rates[1]));
  for (size_t i = 0; i < ways.size(); ++i)
    out.add(compare(
      "parallel/peers/" + name + "/ddp" + ways[i].suffix, rates[0], "1/s",
      std::string{"DistributedDataParallel (gloo)"} + ways[i].shown,
      rates[i + 2], better::higher));
}

/// The file of the network of `wide_run`; removed by the destructor.
class wide_file {
public:
  wide_file() { write_wide_network(path()); }

  std::filesystem::path path() const { return folder_.path() / "wide.pt"; }

private:
  app::scratch_folder folder_;
};

} // namespace

void measure_peer_nodes(const setting& how, report& out) {
  out.begin("samples a second of peers, each a worker and a shard, under sync "
            "(target: 1)");
  compare_peers("lenet", lenet_run(), how, out);
  compare_peers("resnet18", resnet_run(), how, out);
  wide_file network;
  compare_peers("wide", wide_run(network.path()), how, out);
}

void measure_peers_over_stream(const setting& how, report& out) {
  out.begin("samples a second of peers over stream, under sync (target: 0.9 of "
            "DistributedDataParallel)");
  wide_file network;
  auto wide = wide_run(network.path());
  wide.flags = {"--transport", "stream"};
  for (uint64_t workers : {2, 4}) {
    wide.workers = workers;
    compare_peers("wide/stream/" + std::to_string(workers), wide, how, out);
  }
}

void measure_slow_peer(const setting& how, report& out) {
  out.begin("samples a second of two peers of which one computes four times "
            "slower, under async (target: 0.9)");
  for (auto what : {lenet_run(), resnet_run()}) {
    what.one_is_slow = true;
    contenders ours{how, what};
    auto rates = alternate(what.name,
                           {{"peers",
                             [&] {
                               return ours.as_peers("async");
                             }},
                            {"star",
                             [&] {
                               return ours.in_processes("async");
                             }}},
                           how.quick ? 1 : 5, out);
    out.add(beside_star("slow_peer/" + what.name, rates[0], rates[1]));
  }
}

} // namespace troupe::bench
