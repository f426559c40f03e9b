// `--role auto` under torchrun, with a parameter server. ../parity has peers.

#include "tests/launchers/programs.hpp"
#include "tests/process/process_fixture.hpp"

#include <catch2/catch_test_macros.hpp>

using namespace troupe::testing;

TEST_CASE("torchrun starts all again when a worker dies, and the run goes on") {
  const std::string python = TROUPE_PYTHON;
  if (python.empty())
    SKIP("no Python with torch was found: ./dev setup --parity");
  process_fixture on{recorded};
  child_options how;
  how.folder = on.home();
  how.environment = {{"OMP_NUM_THREADS", "1"}};
  child run{flags{python, "-m", "torch.distributed.run", "--nproc-per-node",
                  "3", "--master-port", on.port(), "--max-restarts", "1",
                  "--monitor-interval", "0.1", "--no-python"} +
              trainer_node(flags{"--role", "auto", "--train-dir",
                                 on.run().string(), "--epochs", "4", "--policy",
                                 "async", "--resume", "auto"} +
                           on.of_writer()),
            on.home() / "torchrun", how};
  on.await(run, "an update", is_step(5));
  kill_process(run, "RANK=1");
  check_end(run, 0);
  INFO(run.report());
  CHECK(run.said("role         worker 1, rank 2 of 3: from RANK=2, "
                 "WORLD_SIZE=3, LOCAL_RANK=2; dials .*MASTER_ADDR"));
  CHECK(run.said("restart      TORCHELASTIC_RESTART_COUNT=1: goes on"));
  check_completed(on, 4);
}
