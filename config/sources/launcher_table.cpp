#include "config/sources/launcher_table.hpp"

#include "config/sources/node_list.hpp"
#include "config/text/failure.hpp"
#include "config/text/text.hpp"
#include "config/text/value.hpp"

namespace troupe::config {

namespace {

/// Within a Slurm job mpirun starts its processes with srun, and torchrun may
/// run under either; a pod of Kubeflow or JobSet is one of an Indexed Job, too.
constexpr launcher_row rows[] = {
  {.name = "torchrun",
   .rank = {"RANK"},
   .processes = {"WORLD_SIZE"},
   .local_rank = {"LOCAL_RANK"},
   .local_processes = {"LOCAL_WORLD_SIZE"},
   .restarts = {"TORCHELASTIC_RESTART_COUNT"},
   .local_rank_alone = true},
  {.name = "mpirun",
   .rank = {"OMPI_COMM_WORLD_RANK"},
   .processes = {"OMPI_COMM_WORLD_SIZE"},
   .local_rank = {"OMPI_COMM_WORLD_LOCAL_RANK"},
   .local_processes = {"OMPI_COMM_WORLD_LOCAL_SIZE"},
   .may_bind = true},
  {.name = "srun",
   .rank = {"SLURM_PROCID"},
   .processes = {"SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"},
   .local_rank = {"SLURM_LOCALID"},
   .local_processes = {"SLURM_STEP_TASKS_PER_NODE"},
   .node = {"SLURM_NODEID"},
   .nodes = {"SLURM_STEP_NUM_NODES", "SLURM_NNODES", "SLURM_JOB_NUM_NODES"},
   .host = {"SLURM_STEP_NODELIST"},
   .hosts = host_form::slurm,
   .port = {"SLURM_STEP_RESV_PORTS"},
   .job = {"SLURM_JOB_ID"},
   .step = {"SLURM_STEP_ID"},
   .restarts = {"SLURM_RESTART_COUNT"},
   .may_bind = true},
  {.name = "a TrainJob of Kubeflow",
   .rank = {"PET_NODE_RANK"},
   .processes = {"PET_NNODES"},
   .host = {"PET_MASTER_ADDR"},
   .port = {"PET_MASTER_PORT"}},
  {.name = "Volcano",
   .rank = {"VC_TASK_INDEX"},
   .processes = {"VC_*_NUM"},
   .host = {"VC_*_HOSTS"}},
  {.name = "SkyPilot",
   .rank = {"SKYPILOT_NODE_RANK"},
   .processes = {"SKYPILOT_NUM_NODES"},
   .host = {"SKYPILOT_NODE_IPS"}},
  {.name = "dstack",
   .rank = {"DSTACK_NODE_RANK"},
   .processes = {"DSTACK_NODES_NUM"},
   .host = {"DSTACK_MASTER_NODE_IP", "DSTACK_NODES_IPS"}},
  {.name = "a JobSet",
   .mark = {"JOBSET_NAME"},
   .rank = {"JOB_COMPLETION_INDEX"},
   .host = {"JOBSET_COORDINATOR"},
   .restarts = {"JOBSET_RESTART_ATTEMPT"},
   .host_hint = ", or JOBSET_COORDINATOR with the JobSet's coordinator"},
  {.name = "an Indexed Job of Kubernetes",
   .rank = {"JOB_COMPLETION_INDEX"},
   .host_hint = ", which is JOB-0.SERVICE behind a headless Service"},
};

bool is_set(const environment& all, const variable_names& names) {
  return find_fact(all, names).has_value();
}

/// The one variable whose name begins and ends so.
std::optional<variable_fact> match_fact(const environment& all,
                                        std::string_view begin,
                                        std::string_view end) {
  std::optional<variable_fact> out;
  for (auto at = all.lower_bound(begin);
       at != all.end() && at->first.starts_with(begin); ++at) {
    const auto& [name, text] = *at;
    if (text.empty() || name.size() <= begin.size() + end.size() ||
        !name.ends_with(end))
      continue;
    if (out)
      throw usage_error("--role auto: " + out->name + " and " + name +
                        " are of several tasks, and a rank is one within its "
                        "task: put all processes into one task, or give each "
                        "task its --role");
    out = {name, text};
  }
  return out;
}

std::optional<uint32_t>
number_or_none(const std::optional<variable_fact>& from) {
  try {
    return from ? std::optional{parse<uint32_t>(from->text)} : std::nullopt;
  } catch (const bad_value&) {
    return std::nullopt;
  }
}

std::optional<uint32_t> processes_here(const environment& all,
                                       const launcher_row& row) {
  auto told = find_fact(all, row.local_processes);
  if (!told || !row.node[0])
    return number_or_none(told);
  auto node = number_or_none(find_fact(all, row.node));
  return number_of_node(told->text, node.value_or(0));
}

} // namespace

std::string variable_fact::cite() const {
  return name + "=" + shown(text);
}

std::optional<variable_fact> find_fact(const environment& all,
                                       const variable_names& names) {
  for (const auto* name : names) {
    if (name == nullptr)
      break;
    std::string_view wanted{name};
    if (auto star = wanted.find('*'); star != wanted.npos) {
      if (auto found =
            match_fact(all, wanted.substr(0, star), wanted.substr(star + 1)))
        return found;
    } else if (auto at = all.find(wanted);
               at != all.end() && !at->second.empty()) {
      return variable_fact{at->first, at->second};
    }
  }
  return std::nullopt;
}

const launcher_row* find_launcher(const environment& all) {
  for (const auto& row : rows)
    if (is_set(all, row.rank) && (!row.mark[0] || is_set(all, row.mark)) &&
        (!row.processes[0] || is_set(all, row.processes)))
      return &row;
  return nullptr;
}

local_place find_local_place(const environment& all) {
  local_place out;
  for (const auto& row : rows) {
    auto here = processes_here(all, row);
    if (here && out.processes == 0) {
      out.processes = *here;
      out.bound = row.may_bind;
    }
    if (!out.rank && (row.local_rank_alone || here.value_or(0) > 1))
      out.rank = find_fact(all, row.local_rank);
  }
  return out;
}

} // namespace troupe::config
