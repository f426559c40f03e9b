#include "config/sources/launch_environment.hpp"

#include "config/sources/launcher_table.hpp"
#include "config/sources/node_list.hpp"
#include "config/sources/ps_lite.hpp"
#include "config/sources/service_variables.hpp"
#include "config/text/failure.hpp"
#include "config/text/text.hpp"
#include "config/text/value.hpp"

namespace troupe::config {

namespace {

using source = origin::source;

uint32_t number_in(const variable_fact& from) {
  try {
    return parse<uint32_t>(from.text);
  } catch (const bad_value& why) {
    throw usage_error(from.cite() + ": " + why.what());
  }
}

/// Within a Slurm job, but in none of its steps. Then SLURM_PROCID=0 is that of
/// the batch script, which is alone: only srun starts the others.
bool lacks_step(const environment& all) {
  return find_fact(all, {"SLURM_JOB_ID"}) &&
         !find_fact(all, {"SLURM_STEP_ID", "SLURM_STEPID"});
}

/// The port of the parameter server: MASTER_PORT, or the next one if torchrun
/// itself listens there.
std::string master_port(const environment& all) {
  auto port = number_of(all, "MASTER_PORT");
  auto store = find_fact(all, {"TORCHELASTIC_USE_AGENT_STORE"});
  auto taken = store && store->text == "True";
  return std::to_string(taken ? uint64_t{port} + 1 : port);
}

std::string first_host(const variable_fact& list, host_form form) {
  if (form == host_form::slurm)
    try {
      return expand_node_list(list.text).front();
    } catch (const bad_value& why) {
      throw usage_error(list.cite() + ": " + why.what());
    }
  return list.text.substr(0, list.text.find_first_of(", \n"));
}

std::optional<given> host_of(const environment& all, const launcher_row& row,
                             bool several) {
  const auto& host = key_of("cluster.host");
  if (auto named = find_fact(all, {"MASTER_ADDR"}))
    return given{&host, named->text, {source::environment, named->name}};
  auto list = several ? find_fact(all, row.host) : std::nullopt;
  if (!list)
    return std::nullopt;
  auto first = first_host(*list, row.hosts);
  auto where = first == list->text ? list->name : "first of " + list->name;
  return given{&host, first, {source::environment, where}};
}

/// Runs of several jobs may share a host, so each job has a port of its own:
/// below those that the system gives to outgoing connections.
given port_of_job(const environment& all, const launcher_row& row,
                  const variable_fact& job) {
  auto step = find_fact(all, row.step);
  uint64_t number =
    uint64_t{number_in(job)} * 10 + (step ? number_in(*step) : 0);
  return {&key_of("cluster.port"),
          std::to_string(20'000 + number % 10'000),
          {source::environment, job.name}};
}

std::optional<given> port_of(const environment& all, const launcher_row& row) {
  const auto& port = key_of("cluster.port");
  // A service of Kubernetes named `master` sets this one, too.
  if (find_fact(all, {"MASTER_PORT"}) &&
      !is_surely_of_a_service(all, "MASTER_PORT"))
    return given{&port, master_port(all), {source::environment, "MASTER_PORT"}};
  if (auto range = find_fact(all, row.port))
    return given{&port,
                 range->text.substr(0, range->text.find_first_of("-,")),
                 {source::environment, range->name}};
  if (auto job = find_fact(all, row.job))
    return port_of_job(all, row, *job);
  return std::nullopt;
}

/// What says that the processes are not all on this host.
std::string several_hosts(const environment& all, const launcher_row& row,
                          const launch& by) {
  auto of_all =
    " of " + by.processes_variable + "=" + std::to_string(by.processes);
  if (!row.local_processes[0])
    return by.processes == 1 ? "" : by.facts.back();
  if (row.nodes[0]) {
    auto nodes = find_fact(all, row.nodes);
    return nodes && number_in(*nodes) > 1 ? nodes->cite() + of_all : "";
  }
  auto here = find_fact(all, row.local_processes);
  return here && number_in(*here) < by.processes ? here->cite() + of_all : "";
}

void read_rank(launch& out, const environment& all, const launcher_row& row) {
  auto rank = find_fact(all, row.rank).value();
  out.rank = number_in(rank);
  out.rank_variable = rank.name;
  out.facts = {rank.cite()};
  if (auto processes = find_fact(all, row.processes)) {
    out.processes = number_in(*processes);
    out.processes_variable = processes->name;
    out.facts.push_back(processes->cite());
    if (out.rank >= out.processes)
      throw usage_error(rank.cite() + ": must be below " + processes->cite());
  }
}

std::string restart_of(const environment& all, const launcher_row& row) {
  auto count = find_fact(all, row.restarts);
  return count && number_in(*count) > 0 ? count->cite() : "";
}

} // namespace

uint32_t number_of(const environment& variables, const std::string& name) {
  auto found = find_fact(variables, {name.c_str()});
  return number_in(found.value_or(variable_fact{name, ""}));
}

std::optional<launch> read_launch(const environment& variables) {
  if (auto by_role = read_ps_lite(variables))
    return by_role;
  const auto* row = find_launcher(variables);
  if (row == nullptr)
    return std::nullopt;
  if (row->step[0] && lacks_step(variables))
    throw usage_error(
      "--role auto: SLURM_PROCID and SLURM_NTASKS are those of a Slurm job, "
      "but this process is of none of its steps (no SLURM_STEP_ID): start it "
      "with srun");
  launch result;
  read_rank(result, variables, *row);
  result.several_hosts = several_hosts(variables, *row, result);
  result.host_hint = row->host_hint;
  auto several = !result.several_hosts.empty();
  for (auto& place :
       {host_of(variables, *row, several), port_of(variables, *row)})
    if (place)
      result.meeting_point.push_back(*place);
  if (auto place = find_local_place(variables); place.rank)
    result.facts.push_back(place.rank->cite());
  result.restart = restart_of(variables, *row);
  return result;
}

} // namespace troupe::config
