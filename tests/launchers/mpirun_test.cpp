// `--role auto` under Open MPI's mpirun.

#include "tests/launchers/programs.hpp"
#include "tests/process/process_fixture.hpp"

#include <catch2/catch_test_macros.hpp>

using namespace troupe::testing;

namespace {

child mpirun(process_fixture& on, int processes, const flags& more) {
  require_programs({"mpirun"});
  child_options how;
  how.folder = on.home();
  return {flags{find_program("mpirun"), "--allow-run-as-root",
                "--oversubscribe", "--mca", "plm", "isolated", "--mca",
                "oob_tcp_if_include", "lo", "-n", std::to_string(processes)} +
            trainer_node(flags{"--role", "auto", "--port", on.port(),
                               "--train-dir", on.run().string()} +
                         on.of_writer() + more),
          on.home() / "mpirun", how};
}

} // namespace

TEST_CASE("mpirun starts a cluster with an evaluator") {
  process_fixture on;
  auto run = mpirun(on, 4, {"--evaluator", "--epochs", "1"});
  check_end(run, 0);
  INFO(run.report());
  CHECK(run.said("role         evaluator, rank 3 of 4: from "
                 "OMPI_COMM_WORLD_RANK=3, OMPI_COMM_WORLD_SIZE=4, "
                 "OMPI_COMM_WORLD_LOCAL_RANK=3; dials 127.0.0.1:"));
  CHECK(on.summary()["workers"] == 2);
  CHECK(on.summary()["final_accuracy"] > 0.5);
}

TEST_CASE("mpirun ends all when a worker dies, and the run goes on later") {
  process_fixture on{recorded};
  const flags what{"--epochs", "4", "--policy", "async", "--resume", "auto"};
  auto run = mpirun(on, 3, what);
  on.await(run, "an update", is_step(5));
  kill_process(run, "OMPI_COMM_WORLD_RANK=2");
  CHECK(run.wait() != 0);
  auto again = mpirun(on, 3, what);
  check_end(again, 0);
  check_completed(on, 4);
}
