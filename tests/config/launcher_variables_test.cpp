// The variables of each launcher, as it sets them. tests/launchers starts
// clusters with those that can be installed.

#include "tests/config/support.hpp"

#include <catch2/catch_test_macros.hpp>

using namespace troupe::config;
using namespace troupe::config::test;

namespace {

resolved started(const environment& variables, const std::string& more = "") {
  return parse(split("--role auto --insecure-network " + more), variables)
    .config;
}

std::string start_complaint(const environment& variables,
                            const std::string& more = "") {
  return complaint([&] { started(variables, more); });
}

std::string place(const resolved& all) {
  return all.values.cluster.host + ":" +
         std::to_string(all.values.cluster.port);
}

/// What the log says.
std::string decision(const environment& variables,
                     const std::string& more = "") {
  return started(variables, more).decisions.at(0);
}

const environment slurm_step{{"SLURM_JOB_ID", "77"},
                             {"SLURM_JOB_NODELIST", "n[1-4]"},
                             {"SLURM_LOCALID", "1"},
                             {"SLURM_NNODES", "2"},
                             {"SLURM_NODEID", "1"},
                             {"SLURM_NTASKS", "4"},
                             {"SLURM_PROCID", "3"},
                             {"SLURM_STEP_ID", "2"},
                             {"SLURM_STEP_NODELIST", "n[3-4]"},
                             {"SLURM_STEP_NUM_NODES", "2"},
                             {"SLURM_STEP_NUM_TASKS", "4"},
                             {"SLURM_STEP_TASKS_PER_NODE", "2(x2)"}};

environment with(environment all, const environment& more) {
  for (const auto& [name, text] : more)
    all[name] = text;
  return all;
}

} // namespace

TEST_CASE("Slurm names the first host of the step, and a port of the job",
          "[launch]") {
  CHECK(decision(slurm_step) ==
        "role         worker 2, rank 3 of 4: from SLURM_PROCID=3, "
        "SLURM_STEP_NUM_TASKS=4, SLURM_LOCALID=1; dials n3:20772 (first of "
        "SLURM_STEP_NODELIST, SLURM_JOB_ID)");
  auto place_with = [](const environment& more, const std::string& flags = "") {
    return place(started(with(slurm_step, more), flags));
  };
  CHECK(place_with({{"SLURM_JOB_ID", "123456"}}) == "n3:24562");
  CHECK(place_with({{"SLURM_STEP_RESV_PORTS", "24600-24601"}}) == "n3:24600");
  CHECK(place_with({{"MASTER_ADDR", "n7"}, {"MASTER_PORT", "99"}}) == "n7:99");
  CHECK(place_with({}, "--host n9 --port 7") == "n9:7");
  CHECK(place_with({{"SLURM_STEP_NUM_NODES", "1"}}) == "127.0.0.1:20772");
  CHECK(start_complaint(with(slurm_step, {{"SLURM_STEP_NODELIST", "n[3-"}})) ==
        "SLURM_STEP_NODELIST=n[3-: is no list of nodes, such as n[01-03,7],b");
}

TEST_CASE("a server that was started again says what it does", "[launch]") {
  auto restarted =
    with(slurm_step, {{"SLURM_PROCID", "0"}, {"SLURM_RESTART_COUNT", "2"}});
  auto says = [&](const std::string& flags) {
    return started(restarted, flags).decisions.at(1);
  };
  CHECK(says("--resume auto") ==
        "restart      SLURM_RESTART_COUNT=2: goes on, since there is --resume "
        "auto");
  CHECK(says("") ==
        "restart      SLURM_RESTART_COUNT=2: begins a run anew, since nothing "
        "says --resume auto, which goes on at the newest checkpoint");
  restarted["SLURM_RESTART_COUNT"] = "0";
  CHECK(started(restarted).decisions.size() == 1);
  restarted["SLURM_RESTART_COUNT"] = "2";
  restarted["SLURM_PROCID"] = "1"; // A worker takes what the server has.
  CHECK(started(restarted).decisions.size() == 1);
}

TEST_CASE("a process on each machine is told where the first one is",
          "[launch]") {
  const std::pair<environment, std::string> all[] = {
    {{{"PET_NNODES", "3"},
      {"PET_NPROC_PER_NODE", "1"},
      {"PET_NODE_RANK", "2"},
      {"PET_MASTER_ADDR", "lenet-node-0-0.lenet"},
      {"PET_MASTER_PORT", "29400"},
      {"JOB_COMPLETION_INDEX", "2"}},
     "from PET_NODE_RANK=2, PET_NNODES=3; dials lenet-node-0-0.lenet:29400 "
     "(PET_MASTER_ADDR, PET_MASTER_PORT)"},
    {{{"VC_TASK_INDEX", "2"},
      {"VK_TASK_INDEX", "2"},
      {"VC_NODE_NUM", "3"},
      {"VC_NODE_HOSTS", "lenet-node-0.lenet,lenet-node-1.lenet"}},
     "from VC_TASK_INDEX=2, VC_NODE_NUM=3; dials lenet-node-0.lenet:4242 "
     "(first of VC_NODE_HOSTS, default)"},
    {{{"SKYPILOT_NODE_RANK", "2"},
      {"SKYPILOT_NUM_NODES", "3"},
      {"SKYPILOT_NODE_IPS", "10.0.0.5\n10.0.0.6\n10.0.0.7"}},
     "from SKYPILOT_NODE_RANK=2, SKYPILOT_NUM_NODES=3; dials 10.0.0.5:4242 "
     "(first of SKYPILOT_NODE_IPS, default)"},
    {{{"DSTACK_NODE_RANK", "2"},
      {"DSTACK_NODES_NUM", "3"},
      {"DSTACK_MASTER_NODE_IP", "10.0.0.5"},
      {"DSTACK_NODES_IPS", "10.0.0.5\n10.0.0.6\n10.0.0.7"}},
     "from DSTACK_NODE_RANK=2, DSTACK_NODES_NUM=3; dials 10.0.0.5:4242 "
     "(DSTACK_MASTER_NODE_IP, default)"},
    {{{"JOBSET_NAME", "lenet"},
      {"JOBSET_COORDINATOR", "lenet-node-0-0.lenet"},
      {"JOBSET_RESTART_ATTEMPT", "1"},
      {"JOB_COMPLETION_INDEX", "2"},
      {"TROUPE_CLUSTER_WORKERS", "2"}},
     "from JOB_COMPLETION_INDEX=2, TROUPE_CLUSTER_WORKERS=2; dials "
     "lenet-node-0-0.lenet:4242 (JOBSET_COORDINATOR, default)"},
    {{{"JOB_COMPLETION_INDEX", "2"},
      {"TROUPE_CLUSTER_WORKERS", "2"},
      {"TROUPE_CLUSTER_HOST", "lenet-0.lenet"}},
     "from JOB_COMPLETION_INDEX=2, TROUPE_CLUSTER_WORKERS=2; dials "
     "lenet-0.lenet:4242 (TROUPE_CLUSTER_HOST, default)"},
  };
  for (const auto& [variables, line] : all) {
    INFO(line);
    CHECK(decision(variables) == "role         worker 1, rank 2 of 3: " + line);
    CHECK(started(variables).values.cluster.workers == 2);
  }
}

TEST_CASE("pods of a Job have to be told how many they are, and where",
          "[launch]") {
  environment pod{{"JOB_COMPLETION_INDEX", "1"}};
  CHECK(start_complaint(pod) ==
        "JOB_COMPLETION_INDEX=1: this launcher does not say how many processes "
        "there are: give --workers, or TROUPE_CLUSTER_WORKERS");
  CHECK(start_complaint(pod, "--workers 2") ==
        "[cluster] host = 127.0.0.1 (default): only this host reaches it, but "
        "JOB_COMPLETION_INDEX=1 says that there are others: give --host or "
        "MASTER_ADDR with the host of process 0, which is JOB-0.SERVICE behind "
        "a headless Service");
  pod["JOB_COMPLETION_INDEX"] = "4";
  CHECK(start_complaint(pod, "--workers 2 --host lenet-0.lenet") ==
        "JOB_COMPLETION_INDEX=4: must be below 3, the number of processes of "
        "a cluster with 2 workers");
  pod["JOB_COMPLETION_INDEX"] = "3";
  auto last = started(pod, "--workers 2 --host lenet-0.lenet --evaluator");
  CHECK(last.values.what == role::evaluator);
}

TEST_CASE("tasks of Volcano that are ranked each for itself are refused",
          "[launch]") {
  environment pod{{"VC_TASK_INDEX", "0"},
                  {"VC_PS_NUM", "1"},
                  {"VC_PS_HOSTS", "lenet-ps-0.lenet"},
                  {"VC_WORKER_NUM", "2"},
                  {"VC_WORKER_HOSTS", "lenet-worker-0.lenet"}};
  CHECK(start_complaint(pod) ==
        "--role auto: VC_PS_NUM and VC_WORKER_NUM are of several tasks, and a "
        "rank is one within its task: put all processes into one task, or give "
        "each task its --role");
}

TEST_CASE("roles of ps-lite are ours, and its servers are shards", "[launch]") {
  auto of = [](const std::string& role, const environment& more = {}) {
    return with({{"DMLC_ROLE", role},
                 {"DMLC_NUM_WORKER", "3"},
                 {"DMLC_NUM_SERVER", "2"},
                 {"DMLC_PS_ROOT_URI", "10.0.0.5"},
                 {"DMLC_PS_ROOT_PORT", "9000"}},
                more);
  };
  auto lead = started(of("scheduler"));
  CHECK(has_remote_shards(lead.values));
  CHECK(lead.values.cluster.shards == 3);
  CHECK(lead.values.cluster.workers == 3);
  auto shard = started(of("server", {{"DMLC_SERVER_ID", "1"}}));
  CHECK(is_remote_shard(shard.values));
  CHECK(shard.values.cluster.rank == 2);
  CHECK(shard.values.cluster.listen == "0.0.0.0:0");
  auto named =
    of("server", {{"DMLC_TASK_ID", "3"}, {"DMLC_NODE_HOST", "10.0.0.6"}});
  CHECK(started(named).values.cluster.listen == "10.0.0.6:0");
  CHECK(started(of("worker")).values.cluster.rank == std::nullopt);
  CHECK(decision(of("worker", {{"DMLC_WORKER_ID", "1"}})) ==
        "role         worker 1: from DMLC_ROLE=worker, DMLC_WORKER_ID=1, "
        "DMLC_NUM_WORKER=3, DMLC_NUM_SERVER=2; dials 10.0.0.5:9000 "
        "(DMLC_PS_ROOT_URI, DMLC_PS_ROOT_PORT)");
  auto alone = started(of("scheduler", {{"DMLC_NUM_SERVER", "0"}}));
  CHECK(alone.values.cluster.shards == 1);
  CHECK(alone.values.cluster.rank == std::nullopt);
  CHECK(start_complaint(of("boss")) ==
        "DMLC_ROLE=boss: must be scheduler, server or worker");
  CHECK(start_complaint(of("server")) ==
        "DMLC_ROLE=server: which of 2 servers this is, is not said: set "
        "DMLC_SERVER_ID, from 0 on");
  CHECK(start_complaint(of("worker", {{"DMLC_WORKER_ID", "3"}})) ==
        "DMLC_WORKER_ID=3: there are only 3 workers");
  CHECK(start_complaint(of("server", {{"DMLC_TASK_ID", "2"}})) ==
        "DMLC_TASK_ID=2: is one of 3 workers, but this is a server: set "
        "DMLC_SERVER_ID, from 0 on");
  CHECK(start_complaint(of("server", {{"DMLC_TASK_ID", "5"}})) ==
        "DMLC_TASK_ID=5: there are only 2 servers");
  CHECK(start_complaint(of("worker", {{"DMLC_PS_ROOT_URI", ""}})) ==
        "DMLC_ROLE=worker: DMLC_PS_ROOT_URI does not say where the scheduler "
        "is; dmlc-submit starts one with --num-servers 1 or more");
  CHECK(start_complaint(of("worker", {{"DMLC_NUM_WORKER", ""}})) ==
        "DMLC_NUM_WORKER=: needs a value");
  CHECK(start_complaint(of("worker"), "--topology peers")
          .starts_with("--topology peers: DMLC_ROLE makes servers"));
  CHECK(start_complaint(of("worker"), "--workers 2") ==
        "--workers 2: does not fit the launcher, which makes 3");
}
