#include "config/launch.hpp"

#include "config/failure.hpp"
#include "config/text.hpp"
#include "config/value.hpp"

namespace troupe::config {

namespace {

using source = origin::source;

struct launcher {
  const char* rank;
  const char* processes;
};

constexpr launcher launchers[] = {
  {"RANK", "WORLD_SIZE"},
  {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
  {"SLURM_PROCID", "SLURM_NTASKS"},
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

/// The port for the parameter server next to whoever holds MASTER_PORT.
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
  if (!variable(all, "MASTER_PORT").empty())
    result.push_back({&key_of("cluster.port"),
                      port_of(all),
                      {source::environment, "MASTER_PORT"}});
  return result;
}

} // namespace

launch read_launch(const environment& variables) {
  for (const auto& by : launchers) {
    if (variable(variables, by.rank).empty() ||
        variable(variables, by.processes).empty())
      continue;
    launch result{number(variables, by.rank),
                  number(variables, by.processes),
                  by.rank,
                  by.processes,
                  {}};
    if (result.rank >= result.processes)
      throw usage_error(result.rank_variable + "=" +
                        std::to_string(result.rank) + ": must be below " +
                        result.processes_variable + "=" +
                        std::to_string(result.processes));
    if (by.rank == launchers[0].rank)
      result.meeting_point = meeting_point(variables);
    return result;
  }
  throw usage_error("--role auto: no launch environment (RANK and WORLD_SIZE, "
                    "OMPI_COMM_WORLD_RANK and _SIZE, or SLURM_PROCID and "
                    "SLURM_NTASKS); give --role ps, worker or evaluator");
}

void assign_role(resolved& all, const launch& by) {
  auto& cluster = all.values.cluster;
  auto with_evaluator = cluster.evaluator.value_or(false);
  auto others = with_evaluator ? 2u : 1u;
  auto cast = std::string{"a parameter server"} +
              (with_evaluator ? ", an evaluator" : "") + " and ";
  auto size = by.processes_variable + "=" + std::to_string(by.processes);
  if (by.processes <= others)
    throw usage_error(size + ": --role auto needs " + cast +
                      "at least one worker");
  auto workers = by.processes - others;
  if (all.is_explicit("cluster.workers") && cluster.workers != workers)
    throw usage_error(all.cite("cluster.workers") + ": does not fit " + size +
                      ", which makes " + cast + std::to_string(workers) +
                      " workers");
  all.take({&key_of("cluster.workers"),
            std::to_string(workers),
            {source::environment, by.processes_variable}});
  fill_in_batch_size(all);
  auto& what = all.values.what;
  what = by.rank == 0         ? role::ps
         : by.rank <= workers ? role::worker
                              : role::evaluator;
  if (what == role::worker)
    all.take({&key_of("cluster.rank"),
              std::to_string(by.rank - 1),
              {source::environment, by.rank_variable}});
}

} // namespace troupe::config
