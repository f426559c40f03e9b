#include "config/runs/shared_settings.hpp"
#include "config/sources/next_life_settings.hpp"
#include "tests/config/support.hpp"

#include <catch2/catch_test_macros.hpp>

using namespace troupe::config;
using namespace troupe::config::test;

namespace {

resolved launched(const environment& variables, const std::string& more = "") {
  return parse(split("--role auto " + more), variables).config;
}

std::string launch_complaint(const environment& variables,
                             const std::string& more = "") {
  return complaint([&] { launched(variables, more); });
}

environment torchrun(int rank, int processes) {
  return {{"RANK", std::to_string(rank)},
          {"WORLD_SIZE", std::to_string(processes)},
          {"MASTER_ADDR", "localhost"},
          {"MASTER_PORT", "29500"}};
}

} // namespace

TEST_CASE("rank 0 is the parameter server, the others are workers",
          "[launch]") {
  auto server = launched(torchrun(0, 4));
  CHECK(server.values.what == role::ps);
  CHECK(server.values.cluster.workers == 3);
  CHECK(server.values.cluster.rank == std::nullopt);
  CHECK(server.origin_of("cluster.workers").to_string() ==
        "environment WORLD_SIZE");
  for (uint32_t rank = 1; rank < 4; ++rank) {
    auto worker = launched(torchrun(static_cast<int>(rank), 4));
    CHECK(worker.values.what == role::worker);
    CHECK(worker.values.cluster.rank == rank - 1);
    CHECK(worker.values.cluster.workers == 3);
  }
}

TEST_CASE("the last process is the evaluator when asked for", "[launch]") {
  CHECK(launched(torchrun(0, 4), "--evaluator").values.what == role::ps);
  auto worker = launched(torchrun(2, 4), "--evaluator");
  CHECK(worker.values.what == role::worker);
  CHECK(worker.values.cluster.workers == 2);
  auto last = launched(torchrun(3, 4), "--evaluator --workers 2");
  CHECK(last.values.what == role::evaluator);
  CHECK(last.values.cluster.rank == std::nullopt);
}

TEST_CASE("peers are workers and shards", "[launch]") {
  for (uint32_t rank = 0; rank < 3; ++rank) {
    auto peer =
      launched(torchrun(static_cast<int>(rank), 3), "--topology peers");
    CHECK(is_peer(peer.values));
    CHECK(is_remote_shard(peer.values) == (rank > 0));
    CHECK(has_remote_shards(peer.values) == (rank == 0));
    CHECK(peer.values.cluster.rank == rank);
    CHECK(peer.values.cluster.workers == 3);
    CHECK(peer.values.cluster.shards == 3);
  }
  auto last = launched(torchrun(2, 3), "--topology peers --evaluator");
  CHECK(last.values.what == role::evaluator);
  auto alone = launched(torchrun(0, 1), "--topology peers");
  CHECK(is_peer(alone.values));
  auto here = parse(split("--simulate --topology peers --workers 3")).config;
  CHECK(here.values.cluster.shards == 3);
}

TEST_CASE("a server that is started again goes on, whatever it was told first",
          "[launch]") {
  for (std::string told :
       {"", "--overwrite", "--resume old", "--train-dir new --overwrite"}) {
    INFO(told);
    auto again =
      parse(split("--role ps " + told), {{restart_variable, "/runs/a b"}})
        .config;
    CHECK(again.values.training.resume == "auto");
    CHECK_FALSE(again.values.training.overwrite);
    CHECK(again.values.training.train_dir == "/runs/a b");
  }
  CHECK(restart_settings({}).empty());
}

TEST_CASE("a node of the next life has the arguments that it had", "[launch]") {
  next_life next;
  next.rank = 1;
  next.peers = 2;
  next.before = {
    "a1b2", 3, {{"127.0.0.7", 4000}, {"127.0.0.8", 4001}}, "runs/my lenet"};
  next.listens = {"::1", 4101};
  auto again = [&](const environment& launcher, const std::string& more) {
    auto variables = launcher;
    variables[next_life_variable] = print(next);
    return launched(variables, "--topology peers " + more);
  };
  // By torchrun, or by hand; either cluster had four.
  const std::pair<environment, std::string> starts[] = {
    {torchrun(3, 4), "--overwrite"},
    {{},
     "--rank 3 --workers 4 --init-method tcp://10.0.0.1:4242 "
     "--insecure-network --resume runs/other"}};
  for (const auto& [launcher, flags] : starts) {
    auto uut = again(launcher, flags);
    const auto& cluster = uut.values.cluster;
    CHECK(is_peer(uut.values));
    CHECK(cluster.rank == 1);
    CHECK(cluster.workers == 2);
    CHECK(cluster.shards == 2);
    CHECK(cluster.host == "127.0.0.7");
    CHECK(cluster.port == 4000);
    CHECK(cluster.listen == "[::1]:4101");
    CHECK(cluster.advertise == "127.0.0.8:4001");
    CHECK(uut.values.training.resume == "auto");
    CHECK_FALSE(uut.values.training.overwrite);
    CHECK(uut.values.training.train_dir ==
          launched(launcher, "--topology peers " + flags)
            .values.training.train_dir);
  }
  next.rank = 0;
  CHECK(again({}, "--rank 3 --workers 4 --train-dir here")
          .values.training.train_dir == "runs/my lenet");
  next.global_batch_size = 64;
  auto smaller = again(torchrun(3, 4), "--global-batch-size 128");
  CHECK(smaller.values.training.global_batch_size == 64u);
  CHECK(smaller.values.training.batch_size == 32);
  next.evaluator = true;
  CHECK(again(torchrun(3, 5), "--evaluator").values.cluster.workers == 2);
  // A joiner is a node like any other now, and a shard may lead.
  next.rank = 0;
  next.evaluator = false;
  auto lead = again({}, "--join --listen 127.0.0.7:4000 --interface lo");
  CHECK(is_peer(lead.values));
  CHECK(lead.values.cluster.rank == 0);
  CHECK(lead.values.cluster.listen == "[::1]:4101");
  CHECK(lead.values.cluster.advertise == "127.0.0.7:4000");
  // One that has listened nowhere does as its arguments say.
  next.listens = {};
  auto new_one = again({}, "--listen 127.0.0.7:4000 --interface lo");
  CHECK(new_one.values.cluster.listen == "127.0.0.7:4000");
  CHECK(new_one.values.cluster.interface == "lo");
  for (std::string text :
       {"x", "2 2 0 0 1 - - 1 h:1 ", "0 1 0 0 1 - - 2 h:1 h:2 ",
        "0 1 0 0 1 - - 0 ", "0 1 0 0 1 - - 1 h ", "0 1 0 0 1 - h 1 h:1 ",
        "0 1 0 0 1"})
    CHECK(launch_complaint({{next_life_variable, text}}) ==
          "TROUPE_NEXT_LIFE=" + text +
            ": is set by trainer_node itself; unset it");
}

TEST_CASE("what a node knew goes with it into the next life", "[launch]") {
  auto again = [](const next_life& life) {
    return read_next_life({{next_life_variable, print(life)}}).value();
  };
  next_life all{2, 3, true, true, true, 96, {"a1b2", 3, {}, "/data/my run"}};
  all.before.nodes = {{"10.0.0.7", 4000}, {"::1", 4001}, {"host", 1}};
  all.listens = {"::", 4242};
  auto found = again(all);
  CHECK(found.rank == 2);
  CHECK(found.peers == 3);
  CHECK(found.evaluator);
  CHECK(found.has_led);
  CHECK(found.without_nccl);
  CHECK(found.global_batch_size == 96u);
  CHECK(found.before.run_id == "a1b2");
  CHECK(found.before.number == 3);
  CHECK(found.before.nodes == all.before.nodes);
  CHECK(found.listens == all.listens);
  CHECK(found.before.directory == "/data/my run");
  next_life little{
    0, 3, false, false, false, {}, {"", 0, {{"10.0.0.7", 4000}}, ""}};
  found = again(little);
  CHECK_FALSE(found.has_led);
  CHECK_FALSE(found.without_nccl);
  CHECK(found.listens.host.empty());
  CHECK(found.before.run_id.empty());
  CHECK(found.before.nodes == little.before.nodes);
  CHECK(found.before.directory.empty());
  CHECK_FALSE(found.global_batch_size);
}

TEST_CASE("peers can be started by hand", "[launch]") {
  auto uut = launched({}, "--topology peers --rank 1 --workers 4 "
                          "--init-method tcp://127.0.0.1:29500");
  CHECK(is_remote_shard(uut.values));
  CHECK(uut.values.cluster.port == 29500);
  CHECK(uut.values.cluster.shards == 4);
  auto by_port = launched({}, "--topology peers --rank 0 --workers 1 --port 0");
  CHECK(is_peer(by_port.values));
}

TEST_CASE(
  "a node that joins peers may have the file of one that was there from "
  "the start",
  "[launch]") {
  auto uut = launched({}, "--topology peers --join --workers 4 --shards 4 "
                          "--rank 2 --global-batch-size 96 --policy sync");
  CHECK(uut.values.what == role::worker);
  CHECK_FALSE(uut.values.cluster.rank);
  // It asks the lead for no more than this.
  CHECK(explicit_shared_settings(uut) == pairs{{"policy.name", "sync"}});
}

TEST_CASE("peers that do not fit are refused in one line", "[launch]") {
  const std::string peers = "--topology peers ";
  CHECK(launch_complaint({}, peers).starts_with("--role auto: no variables"));
  CHECK(launch_complaint({}, peers + "--rank 4 --workers 4") ==
        "--rank 4: must be below --workers 4");
  CHECK(launch_complaint(torchrun(0, 3), peers + "--shards 2") ==
        "--shards 2: does not fit WORLD_SIZE=3, which makes 3 peers with a "
        "worker and a shard each");
  CHECK(launch_complaint(torchrun(0, 1), peers + "--evaluator") ==
        "WORLD_SIZE=1: --role auto needs an evaluator and at least one peer");
  CHECK(launch_complaint(torchrun(0, 4),
                         peers + "--evaluator --global-batch-size 256") ==
        "--global-batch-size 256: must be a multiple of the number of workers, "
        "3; the process that evaluates is none of them");
  CHECK(launch_complaint({}, "--join") ==
        "--join true: is for a node that joins peers: give --role auto "
        "--topology peers");
  CHECK(launch_complaint(torchrun(0, 2),
                         peers + "--reshard-on-join --sharding static") ==
        "--reshard-on-join true: would give the samples of a rank to another: "
        "leave --sharding out");
  CHECK(launch_complaint(torchrun(0, 2), "--init-method udp://x") ==
        "--init-method udp://x: must be env://, tcp://HOST:PORT or "
        "file:///PATH, a file that all nodes see");
  CHECK(launch_complaint(torchrun(0, 2), peers + "--mode remote-forward") ==
        "--topology peers: peers compute the whole network each, and no server "
        "computes for them: leave --mode and [placement] out");
  auto said = [](const std::string& line) {
    return complaint([&] { parse(split(line)); });
  };
  CHECK(said("--role worker --topology peers") ==
        "--topology peers: a peer is worker and server in one: use --role auto "
        "instead of --role worker");
  CHECK(said("--simulate --topology peers --workers 2 --shards 3") ==
        "--shards 3: peers have as many shards as workers, 2");
}

TEST_CASE("the launcher says where to meet, unless told otherwise",
          "[launch]") {
  auto all = launched(torchrun(0, 2));
  CHECK(all.values.cluster.host == "localhost");
  CHECK(all.values.cluster.port == 29500);
  CHECK(all.origin_of("cluster.host").to_string() == "environment MASTER_ADDR");
  CHECK(launched(torchrun(0, 2), "--port 7").values.cluster.port == 7);
  auto variables = torchrun(0, 2);
  variables["TROUPE_CLUSTER_PORT"] = "8";
  CHECK(launched(variables).values.cluster.port == 8);
  scratch folder;
  auto file = folder.write("a.ini", "[cluster]\nhost = 127.0.0.9\n");
  CHECK(launched(torchrun(0, 2), "--config " + file).values.cluster.host ==
        "localhost");
}

TEST_CASE("the port that torchrun itself holds is left to it", "[launch]") {
  auto variables = torchrun(1, 2);
  variables["TORCHELASTIC_USE_AGENT_STORE"] = "True";
  CHECK(launched(variables).values.cluster.port == 29501);
  variables["MASTER_PORT"] = "65535";
  CHECK(launch_complaint(variables) ==
        "MASTER_PORT=65536: must be at most 65535");
}

TEST_CASE("a service of Kubernetes named master is no meeting point",
          "[launch]") {
  auto variables = torchrun(1, 2);
  variables["MASTER_PORT"] = "tcp://10.96.3.7:29500";
  CHECK(launch_complaint(variables).starts_with("MASTER_PORT=tcp://"));
  variables["MASTER_SERVICE_HOST"] = "10.96.3.7";
  CHECK(launched(variables).values.cluster.port == cluster_settings{}.port);
}

TEST_CASE("Open MPI and Slurm launch too, torchrun within them wins",
          "[launch]") {
  environment mpi{{"OMPI_COMM_WORLD_RANK", "1"}, {"OMPI_COMM_WORLD_SIZE", "3"}};
  CHECK(launched(mpi).values.cluster.rank == 0);
  CHECK(launched(mpi).values.cluster.workers == 2);
  environment slurm{{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "6"}};
  CHECK(launched(slurm).values.what == role::ps);
  CHECK(launched(slurm).values.cluster.workers == 5);
  slurm.merge(torchrun(1, 2));
  CHECK(launched(slurm).values.cluster.workers == 1);
}

TEST_CASE("Slurm and Open MPI take the meeting point of a batch script",
          "[launch]") {
  environment slurm{{"SLURM_PROCID", "1"},   {"SLURM_NTASKS", "3"},
                    {"SLURM_JOB_ID", "77"},  {"SLURM_STEP_ID", "0"},
                    {"SLURM_NNODES", "3"},   {"MASTER_ADDR", "node1"},
                    {"MASTER_PORT", "29500"}};
  auto all = launched(slurm, "--insecure-network");
  CHECK(all.values.what == role::worker);
  CHECK(all.values.cluster.host == "node1");
  CHECK(all.values.cluster.port == 29500);
  environment mpi{{"OMPI_COMM_WORLD_RANK", "1"},
                  {"OMPI_COMM_WORLD_SIZE", "3"},
                  {"OMPI_COMM_WORLD_LOCAL_SIZE", "3"},
                  {"MASTER_PORT", "7"}};
  CHECK(launched(mpi).values.cluster.port == 7);
}

TEST_CASE("processes on several hosts do not meet at the loopback address",
          "[launch]") {
  environment slurm{{"SLURM_PROCID", "1"},
                    {"SLURM_NTASKS", "4"},
                    {"SLURM_JOB_ID", "77"},
                    {"SLURM_STEP_ID", "0"},
                    {"SLURM_NNODES", "2"}};
  CHECK(launch_complaint(slurm) ==
        "[cluster] host = 127.0.0.1 (default): only this host reaches it, but "
        "SLURM_NNODES=2 of SLURM_NTASKS=4 says that there are others: give "
        "--host or MASTER_ADDR with the host of process 0");
  CHECK(launch_complaint(slurm, "--host localhost")
          .starts_with("--host localhost: only"));
  CHECK(launch_complaint(slurm, "--host node1 --insecure-network") == "");
  // Rank 0 chooses its address itself, and writes it down.
  CHECK(launch_complaint(slurm, "--insecure-network --interface eth0 "
                                "--init-method file:///shared/meet") == "");
  slurm["SLURM_STEP_NUM_NODES"] = "1"; // srun -N 1 in a larger job.
  CHECK(launch_complaint(slurm) == "");
  environment mpi{{"OMPI_COMM_WORLD_RANK", "1"},
                  {"OMPI_COMM_WORLD_SIZE", "4"},
                  {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}};
  CHECK(launch_complaint(mpi).find("OMPI_COMM_WORLD_LOCAL_SIZE=2 of "
                                   "OMPI_COMM_WORLD_SIZE=4") !=
        std::string::npos);
  auto variables = torchrun(1, 4);
  variables["LOCAL_WORLD_SIZE"] = "2";
  CHECK(launch_complaint(variables).starts_with(
    "MASTER_ADDR=localhost: only this host"));
  variables["LOCAL_WORLD_SIZE"] = "4";
  CHECK(launch_complaint(variables) == "");
}

TEST_CASE("a batch script of Slurm is no process of its job", "[launch]") {
  environment script{{"SLURM_PROCID", "0"},
                     {"SLURM_NTASKS", "4"},
                     {"SLURM_JOB_ID", "77"},
                     {"SLURM_NNODES", "1"}};
  CHECK(launch_complaint(script) ==
        "--role auto: SLURM_PROCID and SLURM_NTASKS are those of a Slurm job, "
        "but this process is of none of its steps (no SLURM_STEP_ID): start it "
        "with srun");
  CHECK(launch_complaint(script, "--workers 3")
          .starts_with("--role auto: SLURM_PROCID"));
  auto step = script;
  step["SLURM_STEPID"] = "0";
  CHECK(launch_complaint(step) == "");
  // mpirun and torchrun in such a script have variables of their own.
  script.merge(torchrun(1, 4));
  CHECK(launch_complaint(script) == "");
}

TEST_CASE("a launch that does not fit is refused", "[launch]") {
  CHECK(launch_complaint({}).starts_with(
    "--role auto: no variables of a launcher"));
  CHECK(
    launch_complaint({{"RANK", "0"}}).starts_with("--role auto: no variables"));
  CHECK(launch_complaint(torchrun(2, 2)) ==
        "RANK=2: must be below WORLD_SIZE=2");
  CHECK(launch_complaint({{"RANK", "x"}, {"WORLD_SIZE", "2"}}) ==
        "RANK=x: must be a whole number");
  CHECK(launch_complaint(torchrun(0, 1)) ==
        "WORLD_SIZE=1: --role auto needs a parameter server and at least one "
        "worker");
  CHECK(launch_complaint(torchrun(0, 2), "--evaluator") ==
        "WORLD_SIZE=2: --role auto needs a parameter server, an evaluator and "
        "at least one worker");
  CHECK(launch_complaint(torchrun(0, 4), "--workers 4") ==
        "--workers 4: does not fit WORLD_SIZE=4, which makes a parameter "
        "server and 3 workers");
  auto variables = torchrun(1, 2);
  variables["MASTER_ADDR"] = "node1";
  CHECK(launch_complaint(variables).starts_with(
    "MASTER_ADDR=node1: is no loopback"));
  CHECK(launch_complaint(variables, "--insecure-network") == "");
}

TEST_CASE("a launch environment means nothing to a named role", "[launch]") {
  auto all = parse(split("--role worker"), torchrun(0, 9)).config;
  CHECK(all.values.what == role::worker);
  CHECK(all.values.cluster.workers == cluster_settings{}.workers);
  CHECK(all.values.cluster.port == cluster_settings{}.port);
}
