// `--role auto` under Slurm: srun, and scripts of sbatch.

#include "tests/launchers/slurm.hpp"

#include <catch2/catch_test_macros.hpp>

using namespace troupe::testing;

namespace {

/// The command line of a process of a cluster, as text for the shell.
std::string node(const process_fixture& on, const flags& more) {
  std::string out;
  for (const auto& word :
       trainer_node(flags{"--role", "auto", "--train-dir", on.run().string()} +
                    on.of_writer() + more))
    out += (out.empty() ? "" : " ") + word;
  return out;
}

bool says(const std::string& text, const std::string& pattern) {
  return std::regex_search(text, std::regex{pattern});
}

void check_says(const std::string& text, const std::string& pattern) {
  INFO(text);
  CHECK(says(text, pattern));
}

} // namespace

TEST_CASE("srun starts a cluster on several hosts") {
  process_fixture on;
  slurm cluster{on};
  auto run = cluster.start(
    flags{"srun", "--nodes=3", "--ntasks=4", "--label"} +
    trainer_node({"--role", "auto", "--insecure-network", "--epochs", "1",
                  "--train-dir", on.run().string()}));
  check_end(run, 0);
  auto said = run.out();
  check_says(said, "0: role         parameter server, rank 0 of 4: from "
                   "SLURM_PROCID=0, SLURM_STEP_NUM_TASKS=4, SLURM_LOCALID=0; "
                   "listens at n1:2[0-9]{4} \\(first of SLURM_STEP_NODELIST, "
                   "SLURM_JOB_ID\\)");
  check_says(said, "3: role         worker 2, rank 3 of 4: .*; dials n1:2");
  CHECK(on.summary()["status"] == "completed");
  CHECK(on.summary()["workers"] == 3);
}

TEST_CASE("an sbatch script starts a step, which is smaller than its job") {
  process_fixture on;
  slurm cluster{on};
  auto node_command = node(on, {"--epochs", "1"});
  auto job = cluster.submit(node_command +
                              "\necho alone: $?\nsrun --nodes=1 "
                              "--ntasks=3 " +
                              node_command + "\n",
                            {"--nodes=3", "--ntasks=6"});
  cluster.await_state(job, "COMPLETED");
  auto said = cluster.output();
  check_says(said, "SLURM_PROCID and SLURM_NTASKS are those of a Slurm job, "
                   "but this process is of none of its steps .*: start it "
                   "with srun");
  check_says(said, "alone: 2");
  check_says(said, "worker 1, rank 2 of 3: .*; dials 127.0.0.1:2[0-9]{4} "
                   "\\(default, SLURM_JOB_ID\\)");
  CHECK(on.summary()["workers"] == 2);
}

// --signal=B:USR1@60 sends USR1 to the script, a minute before the limit of
// time.
TEST_CASE(
  "the script of config/deploy hands a signal on, and puts its job back "
  "into the queue") {
  process_fixture on{recorded};
  slurm cluster{on};
  auto pki = (on.home() / "pki").string();
  for (const auto& command :
       {flags{"pki", "init", "--out", pki},
        flags{"pki", "issue", "--out", pki, "--name", "tls", "--role",
              "ps,worker", "--host", "n1,n2"}}) {
    auto done = on.start("pki", command);
    check_end(done, 0);
  }
  auto job = cluster.submit(
    slurp(TROUPE_SOURCE_DIR "/config/deploy/slurm.sbatch"),
    {"--ntasks-per-node=2", "--cpus-per-task=1",
     "--export=ALL,TRAINER_NODE=" + trainer_node({}).front() +
       ",TRAIN_DIR=" + on.run().string() + ",TLS_DIR=" + pki +
       "/tls,TROUPE_TRAINING_EPOCHS=100000,TROUPE_POLICY_NAME=async,"
       "TROUPE_TRAINING_TAPE=true,TROUPE_TRAINING_THREADS=1,"
       "TROUPE_CHECKPOINT_KEEP=100000"});
  for (uint64_t life = 1; life <= 2; ++life) {
    eventually("updates", [&] {
      auto kept = committed_of(on.metrics());
      return kept.resumes + 1 == life && kept.updates.size() >= 10 * life;
    });
    cluster.ask({"scancel", "--batch", "--signal=USR1", job});
    cluster.await_state(job, "PENDING");
    CHECK(on.summary()["status"] == "stopped");
    if (life == 1)
      cluster.start_soon(job);
  }
  CHECK(on.summary()["workers"] == 3);
  CHECK(committed_of(on.metrics()).rolled_back == 0);
  check_replayed(on);
}

// USR1 is what --signal=USR1@60 sends before the limit of time. TERM, and KILL
// later, is what a job gets whose nodes are taken away.
TEST_CASE("a job that is requeued goes on where it was stopped") {
  process_fixture on{recorded};
  slurm cluster{on};
  auto job = cluster.submit(
    "srun --ntasks=3 " +
      node(on,
           {"--resume", "auto", "--epochs", "100000", "--policy", "async"}) +
      "\nstatus=$?\necho status: $status\n"
      "if [ $status = 75 ] && [ -z \"$SLURM_RESTART_COUNT\" ]; then\n"
      "  scontrol requeue $SLURM_JOB_ID\nfi\n",
    {"--nodes=1", "--ntasks=3", "--requeue"});
  uint64_t lives = 0;
  auto stop = [&](const flags& command) {
    ++lives;
    eventually("an update", [&] {
      auto kept = committed_of(on.metrics());
      return kept.resumes + 1 == lives && kept.updates.size() >= 10 * lives;
    });
    cluster.ask(command + flags{job});
  };
  auto start_again = [&] {
    eventually("the end of the start before", [&] {
      return std::filesystem::exists(on.run() / "summary.json");
    });
    CHECK(on.summary()["status"] == "stopped");
    cluster.await_state(job, "PENDING");
    cluster.start_soon(job);
  };
  stop({"scancel", "--signal=USR1"});
  start_again();
  check_says(cluster.output(), "status: 75");
  stop({"scontrol", "requeue"});
  start_again();
  stop({"scancel", "--signal=USR1"});
  cluster.await_state(job, "COMPLETED");
  for (std::string count : {"1", "2"})
    check_says(cluster.output(), "restart      SLURM_RESTART_COUNT=" + count +
                                   ": goes on, since there is --resume auto");
  auto kept = committed_of(on.metrics());
  CHECK(kept.resumes == 2);
  CHECK(kept.rolled_back == 0);
  auto last = checkpoints_of(on.run()).back();
  CHECK(settled_in(on.run() / "checkpoints" / last) == kept.samples);
  check_replayed(on);
}
