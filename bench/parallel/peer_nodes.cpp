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

/// Under `sync`.
/// @param name Of the figure, behind "parallel/peers/".
void compare_peers(const std::string& name, const workload& what,
                   const setting& how, report& out) {
  contenders ours{how, what};
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
                      return rate_of_peer("ddp", way.before, how, what, ours);
                    }});
  auto rates = alternate(name, runs, how.quick ? 1 : 5, out);
  auto figure = "parallel/peers/" + name;
  out.add(compare(figure + "/star", rates[0], "1/s",
                  "a server and as many workers", rates[1], better::higher));
  for (size_t i = 0; i < ways.size(); ++i)
    out.add(
      compare(figure + "/ddp" + ways[i].suffix, rates[0], "1/s",
              std::string{"DistributedDataParallel (gloo)"} + ways[i].shown,
              rates[i + 2], better::higher));
}

} // namespace

void measure_peer_nodes(const setting& how, report& out) {
  out.begin("samples a second of peers, each a worker and a shard, under sync "
            "(targets: 1; over stream 0.9 of DistributedDataParallel)");
  compare_peers("lenet", lenet_run(), how, out);
  compare_peers("resnet18", resnet_run(), how, out);
  app::scratch_folder scratch;
  auto file = scratch.path() / "wide.pt";
  write_wide_network(file);
  auto wide = wide_run(file);
  compare_peers("wide", wide, how, out);
  wide.flags = {"--transport", "stream"};
  for (uint64_t workers : {2, 4}) {
    wide.workers = workers;
    compare_peers("wide/stream/" + std::to_string(workers), wide, how, out);
  }
}

} // namespace troupe::bench
