#include "config/sources/launcher.hpp"

#include "config/sources/next_life_settings.hpp"
#include "config/sources/service_variables.hpp"
#include "config/text/failure.hpp"
#include "config/text/text.hpp"
#include "config/text/value.hpp"
#include "config/values/address.hpp"

namespace troupe::config {

namespace {

using source = origin::source;

struct launcher {
  const char* rank;
  const char* processes;
  const char* here; ///< Processes on this host; or null.
};

constexpr launcher launchers[] = {
  {"RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE"},
  {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
   "OMPI_COMM_WORLD_LOCAL_SIZE"},
  {"SLURM_PROCID", "SLURM_NTASKS", nullptr},
};

std::string variable(const environment& all, std::string_view name) {
  auto found = all.find(name);
  return found == all.end() ? "" : found->second;
}

uint32_t number(const environment& all, const std::string& name) {
  auto text = variable(all, name);
  try {
    return parse<uint32_t>(text);
  } catch (const bad_value& why) {
    throw usage_error(name + "=" + shown(text) + ": " + why.what());
  }
}

/// The port of the parameter server: MASTER_PORT, or the next one if torchrun
/// itself listens there.
std::string port_of(const environment& all) {
  auto port = number(all, "MASTER_PORT");
  auto taken = variable(all, "TORCHELASTIC_USE_AGENT_STORE") == "True";
  return std::to_string(taken ? uint64_t{port} + 1 : port);
}

std::vector<given> meeting_point(const environment& all) {
  std::vector<given> result;
  if (auto host = variable(all, "MASTER_ADDR"); !host.empty())
    result.push_back(
      {&key_of("cluster.host"), host, {source::environment, "MASTER_ADDR"}});
  // A service of Kubernetes named `master` sets this one, too.
  if (!variable(all, "MASTER_PORT").empty() &&
      !is_surely_of_a_service(all, "MASTER_PORT"))
    result.push_back({&key_of("cluster.port"),
                      port_of(all),
                      {source::environment, "MASTER_PORT"}});
  return result;
}

bool is_slurm(const launcher& by) {
  return by.here == nullptr;
}

/// Slurm tells a batch script that it is process 0 of all processes of the job,
/// but it is alone: only srun starts the others, and numbers its steps.
void require_step(const environment& all) {
  auto in_a_job = !variable(all, "SLURM_JOB_ID").empty();
  auto in_a_step = !variable(all, "SLURM_STEP_ID").empty() ||
                   !variable(all, "SLURM_STEPID").empty();
  if (in_a_job && !in_a_step)
    throw usage_error("--role auto: SLURM_PROCID and SLURM_NTASKS are those of "
                      "a Slurm job, but this process is of none of its steps "
                      "(no SLURM_STEP_ID): start it with srun");
}

/// "SLURM_NNODES=2", if that says that the processes are not all on this host.
std::string several_hosts(const environment& all, const launcher& by,
                          uint32_t processes) {
  if (!is_slurm(by)) {
    auto here = variable(all, by.here);
    return !here.empty() && number(all, by.here) < processes
             ? std::string{by.here} + "=" + here
             : "";
  }
  for (std::string name :
       {"SLURM_STEP_NUM_NODES", "SLURM_NNODES", "SLURM_JOB_NUM_NODES"})
    if (auto nodes = variable(all, name); !nodes.empty())
      return number(all, name) > 1 ? name + "=" + nodes : "";
  return "";
}

} // namespace

std::optional<std::filesystem::path>
find_meeting_file(const cluster_settings& cluster) {
  constexpr std::string_view file = "file://";
  const auto& method = cluster.init_method;
  if (!method.starts_with(file))
    return std::nullopt;
  std::filesystem::path out{method.substr(file.size())};
  if (!out.is_absolute() || !out.has_filename())
    return std::nullopt;
  return out;
}

std::optional<launch> read_launch(const environment& variables) {
  for (const auto& by : launchers) {
    if (variable(variables, by.rank).empty() ||
        variable(variables, by.processes).empty())
      continue;
    launch result{number(variables, by.rank),
                  number(variables, by.processes),
                  by.rank,
                  by.processes,
                  "",
                  meeting_point(variables)};
    if (result.rank >= result.processes)
      throw usage_error(result.rank_variable + "=" +
                        std::to_string(result.rank) + ": must be below " +
                        result.processes_variable + "=" +
                        std::to_string(result.processes));
    if (is_slurm(by))
      require_step(variables);
    result.several_hosts = several_hosts(variables, by, result.processes);
    return result;
  }
  return std::nullopt;
}

namespace {

/// Host and port of --init-method, if it has any. Those of a file are read when
/// the node starts. In a run's next life the lead may be elsewhere.
void take_init_method(resolved& all) {
  constexpr std::string_view tcp = "tcp://";
  const auto& method = all.values.cluster.init_method;
  auto is_next_life = all.origin_of("cluster.host").where == next_life_variable;
  if (method == "env://" || find_meeting_file(all.values.cluster) ||
      is_next_life)
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
      "--role auto: no launch environment (RANK and WORLD_SIZE, "
      "OMPI_COMM_WORLD_RANK and _SIZE, or SLURM_PROCID and SLURM_NTASKS); give "
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
  for (auto id : {"cluster.workers", "cluster.shards"})
    set_value(id, nodes, by.processes_variable);
  fill_in_batch_size(all);
  all.values.what = role::ps;
  set_value("cluster.rank", by.rank, by.rank_variable);
}

} // namespace

void assign_role(resolved& all, const std::optional<launch>& given) {
  take_init_method(all);
  if (all.values.cluster.join)
    return assign_joiner(all);
  auto by = given ? *given : launch_of(all);
  auto& cluster = all.values.cluster;
  auto tells_by_file =
    find_meeting_file(cluster) &&
    !(cluster.listen + cluster.advertise + cluster.interface).empty();
  if (!by.several_hosts.empty() && !tells_by_file && is_loopback(cluster.host))
    refuse(all, "cluster.host",
           "only this host reaches it, but " + by.several_hosts + " of " +
             by.processes_variable + "=" + std::to_string(by.processes) +
             " says that there are others: give --host or MASTER_ADDR "
             "with the host of process 0");
  auto size = by.processes_variable + "=" + std::to_string(by.processes);
  if (cluster.topology == topology_kind::peers)
    return assign_peer(all, by, size);
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
  all.set_value({&key_of("cluster.workers"),
                 std::to_string(workers),
                 {source::environment, by.processes_variable}});
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
