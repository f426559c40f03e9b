#include "config/sources/launcher.hpp"

#include "config/sources/next_life_settings.hpp"
#include "config/sources/ps_lite.hpp"
#include "config/sources/rendezvous.hpp"
#include "config/text/failure.hpp"
#include "config/text/text.hpp"
#include "config/text/value.hpp"
#include "config/values/address.hpp"

namespace troupe::config {

namespace {

using source = origin::source;

/// Host and port of --init-method, if it has any. Those of a file are read when
/// the node starts. In a run's next life the lead may be elsewhere.
void take_init_method(resolved& all) {
  constexpr std::string_view tcp = "tcp://";
  const auto& method = all.values.cluster.init_method;
  auto is_next_life = all.origin_of("cluster.host").where == next_life_variable;
  if (method == "env://" || find_meeting(all.values.cluster) || is_next_life)
    return;
  if (!method.starts_with(tcp))
    refuse(all, "cluster.init-method",
           "must be env://, tcp://HOST:PORT or file:///PATH, a file that all "
           "nodes see");
  try {
    auto where = parse_address(method.substr(tcp.size()));
    const auto& from = all.origin_of("cluster.init-method");
    all.set_value({&key_of("cluster.host"), where.host, from});
    all.set_value({&key_of("cluster.port"), std::to_string(where.port), from});
  } catch (const bad_value& why) {
    refuse(all, "cluster.init-method", why.what());
  }
}

/// A start by hand: the settings say which node this is, and of how many.
launch launch_of(const resolved& all) {
  const auto& cluster = all.values.cluster;
  if (cluster.topology != topology_kind::peers || !cluster.rank ||
      !all.is_explicit("cluster.workers"))
    throw usage_error(
      "--role auto: no variables of a launcher that is known "
      "(docs/launchers.md has them; in a Slurm job start it with srun); give "
      "--role ps, worker or evaluator, or --topology peers with --rank and "
      "--workers");
  if (*cluster.rank >= cluster.workers)
    refuse(all, "cluster.rank",
           "must be below --workers " + std::to_string(cluster.workers));
  launch out;
  out.rank = *cluster.rank;
  out.processes = cluster.workers;
  out.rank_variable = "--rank";
  out.processes_variable = "--workers";
  return out;
}

/// A node that joins peers whose run is under way. The lead tells how many they
/// are, so the settings that say so are forgotten: the node may have the file
/// of one that was there from the start.
void assign_joiner(resolved& all) {
  for (auto id : {"cluster.workers", "cluster.shards", "cluster.rank",
                  "training.global-batch-size"})
    all.forget(id);
  all.values.cluster.rank.reset();
  all.values.training.global_batch_size.reset();
  all.values.what = role::worker;
}

/// What says so already stays the source of the number.
void set_workers(resolved& all, uint32_t workers, const std::string& variable) {
  if (all.is_default("cluster.workers") ||
      all.values.cluster.workers != workers)
    all.set_value({&key_of("cluster.workers"),
                   std::to_string(workers),
                   {source::environment, variable}});
}

/// A process of a cluster in which every node is a worker and a shard.
void assign_peer(resolved& all, const launch& by, const std::string& size) {
  auto nodes = by.processes;
  auto set_value = [&](const char* id, uint32_t number,
                       const std::string& variable) {
    all.set_value(
      {&key_of(id), std::to_string(number), {source::environment, variable}});
  };
  if (all.values.cluster.evaluator.value_or(false) && nodes-- == 1)
    throw usage_error(size + ": --role auto needs an evaluator and at least "
                             "one peer");
  for (auto id : {"cluster.workers", "cluster.shards"}) {
    auto given = key_of(id).get(all.values);
    if (all.is_explicit(id) && given != std::to_string(nodes))
      refuse(all, id,
             "does not fit " + size + ", which makes " + std::to_string(nodes) +
               " peers with a worker and a shard each");
  }
  if (by.rank == nodes) { // It serves any number of peers.
    all.values.what = role::evaluator;
    return;
  }
  set_workers(all, nodes, by.processes_variable);
  set_value("cluster.shards", nodes, by.processes_variable);
  fill_in_batch_size(all);
  all.values.what = role::ps;
  set_value("cluster.rank", by.rank, by.rank_variable);
}

void require_reachable(const resolved& all, const launch& by) {
  const auto& cluster = all.values.cluster;
  auto tells_by_file =
    find_meeting(cluster) &&
    !(cluster.listen + cluster.advertise + cluster.interface).empty();
  if (!by.several_hosts.empty() && by.processes > 1 && !tells_by_file &&
      is_loopback(cluster.host))
    refuse(all, "cluster.host",
           "only this host reaches it, but " + by.several_hosts +
             " says that there are others: give --host or MASTER_ADDR with "
             "the host of process 0" +
             by.host_hint);
}

/// A process of a cluster with a parameter server.
void assign_member(resolved& all, const launch& by, const std::string& size) {
  const auto& cluster = all.values.cluster;
  auto with_evaluator = cluster.evaluator.value_or(false);
  auto others = with_evaluator ? 2u : 1u;
  auto wanted = std::string{"a parameter server"} +
                (with_evaluator ? ", an evaluator" : "") + " and ";
  if (by.processes <= others)
    throw usage_error(size + ": --role auto needs " + wanted +
                      "at least one worker");
  auto workers = by.processes - others;
  auto may_vary = cluster.is_elastic() && workers >= cluster.fewest_workers() &&
                  workers <= cluster.max_workers.value_or(workers);
  if (all.is_explicit("cluster.workers") && cluster.workers != workers &&
      !may_vary)
    refuse(all, "cluster.workers",
           "does not fit " + size + ", which makes " + wanted +
             std::to_string(workers) + " workers");
  set_workers(all, workers, by.processes_variable);
  fill_in_batch_size(all);
  auto& what = all.values.what;
  what = by.rank == 0         ? role::ps
         : by.rank <= workers ? role::worker
                              : role::evaluator;
  if (what == role::worker)
    all.set_value({&key_of("cluster.rank"),
                   std::to_string(by.rank - 1),
                   {source::environment, by.rank_variable}});
}

/// For a launcher that does not tell how many processes there are.
void count_processes(const resolved& all, launch& by) {
  const auto& cluster = all.values.cluster;
  const auto& from = all.origin_of("cluster.workers");
  if (all.is_default("cluster.workers"))
    throw usage_error(by.facts.front() +
                      ": this launcher does not say how many processes there "
                      "are: give --workers, or TROUPE_CLUSTER_WORKERS");
  by.processes = cluster.workers +
                 (cluster.topology == topology_kind::peers ? 0 : 1) +
                 (cluster.evaluator.value_or(false) ? 1 : 0);
  by.processes_variable = from.where;
  if (by.rank >= by.processes)
    throw usage_error(by.facts.front() + ": must be below " +
                      std::to_string(by.processes) +
                      ", the number of processes of a cluster with " +
                      count(cluster.workers, "worker"));
  by.facts.push_back(all.cite("cluster.workers"));
}

bool is_lead(const settings& all) {
  return all.what == role::ps && all.cluster.rank.value_or(0) == 0;
}

/// "worker 1"
std::string name_of(const settings& all) {
  auto rank = all.cluster.rank ? " " + std::to_string(*all.cluster.rank) : "";
  if (is_peer(all))
    return "peer" + rank;
  if (all.what == role::ps)
    return rank.empty() ? "parameter server" : "shard" + rank;
  return print(all.what) + rank;
}

/// Says where the parameter server or rank 0 is, and who says so.
std::string place_of_lead(const resolved& all) {
  const auto& cluster = all.values.cluster;
  if (auto place = find_meeting(cluster))
    return place->setting;
  auto source_of = [&](const char* id) {
    return all.is_default(id) ? "default" : all.origin_of(id).where;
  };
  auto host = source_of("cluster.host");
  auto port = source_of("cluster.port");
  return to_string(address{cluster.host, cluster.port}) + " (" + host +
         (port == host ? "" : ", " + port) + ")";
}

/// What is said in the log of a decision that a launcher's variables have made.
void note_decision(resolved& all, const launch& by) {
  if (by.facts.empty())
    return;
  auto place = by.named ? ""
                        : ", rank " + std::to_string(by.rank) + " of " +
                            std::to_string(by.processes);
  all.decisions.push_back("role         " + name_of(all.values) + place +
                          ": from " + join(by.facts, ", ") +
                          (is_lead(all.values) ? "; listens at " : "; dials ") +
                          place_of_lead(all));
  if (by.restart.empty() || !is_lead(all.values))
    return;
  all.decisions.push_back(
    "restart      " + by.restart +
    (all.values.training.resume
       ? ": goes on, since there is " + all.cite("training.resume")
       : ": begins a run anew, since nothing says --resume auto, which goes "
         "on at the newest checkpoint"));
}

} // namespace

void assign_role(resolved& all, const std::optional<launch>& given) {
  take_init_method(all);
  if (all.values.cluster.join)
    return assign_joiner(all);
  auto by = given ? *given : launch_of(all);
  if (by.named) {
    assign_named_role(all, *by.named);
    return note_decision(all, by);
  }
  if (by.processes == 0)
    count_processes(all, by);
  require_reachable(all, by);
  auto size = by.processes_variable + "=" + std::to_string(by.processes);
  if (all.values.cluster.topology == topology_kind::peers)
    assign_peer(all, by, size);
  else
    assign_member(all, by, size);
  note_decision(all, by);
}

void fit_topology(resolved& all) {
  const auto& values = all.values;
  const auto& cluster = values.cluster;
  if (cluster.topology != topology_kind::peers || values.what == role::none)
    return;
  if (values.what != role::simulate)
    refuse(all, "cluster.topology",
           "a peer is worker and server in one: use --role auto "
           "instead of --role " +
             print(values.what));
  if (all.is_explicit("cluster.shards") && cluster.shards != cluster.workers)
    refuse(all, "cluster.shards",
           "peers have as many shards as workers, " +
             std::to_string(cluster.workers));
  all.values.cluster.shards = cluster.workers;
}

} // namespace troupe::config
