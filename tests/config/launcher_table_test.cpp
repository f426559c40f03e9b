#include "config/sources/launcher_table.hpp"

#include <catch2/catch_test_macros.hpp>

using namespace troupe::config;

namespace {

std::string row_name(const environment& all) {
  const auto* row = find_launcher(all);
  return row == nullptr ? "" : row->name;
}

} // namespace

TEST_CASE("of launchers within launchers the inner one counts", "[launch]") {
  environment all;
  CHECK(row_name(all).empty());
  auto then = [&](const environment& more) {
    all.insert(more.begin(), more.end());
    return row_name(all);
  };
  CHECK(then({{"JOB_COMPLETION_INDEX", "0"}}) ==
        "an Indexed Job of Kubernetes");
  CHECK(then({{"JOBSET_NAME", "lenet"}}) == "a JobSet");
  CHECK(then({{"PET_NODE_RANK", "0"}, {"PET_NNODES", "2"}}) ==
        "a TrainJob of Kubeflow");
  CHECK(then({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "2"}}) == "srun");
  CHECK(then({{"OMPI_COMM_WORLD_RANK", "0"}, {"OMPI_COMM_WORLD_SIZE", "2"}}) ==
        "mpirun");
  CHECK(then({{"RANK", "0"}, {"WORLD_SIZE", "2"}}) == "torchrun");
}

TEST_CASE("an empty variable is none", "[launch]") {
  CHECK(row_name({{"RANK", "0"}, {"WORLD_SIZE", ""}}).empty());
}

TEST_CASE("launchers say how many processes they have started on a host",
          "[launch]") {
  auto here = [](const environment& all) {
    return find_local_place(all).processes;
  };
  CHECK(here({}) == 0);
  CHECK(here({{"LOCAL_WORLD_SIZE", "3"}}) == 3);
  CHECK_FALSE(find_local_place({{"LOCAL_WORLD_SIZE", "3"}}).bound);
  CHECK(here({{"LOCAL_WORLD_SIZE", "many"}}) == 0);
  CHECK(here({{"OMPI_COMM_WORLD_LOCAL_SIZE", "4"}}) == 4);
  CHECK(find_local_place({{"OMPI_COMM_WORLD_LOCAL_SIZE", "4"}}).bound);
  environment slurm{{"SLURM_STEP_TASKS_PER_NODE", "4(x2),3,1"}};
  CHECK(here(slurm) == 4);
  for (auto [node, processes] :
       {std::pair{"1", 4u}, {"2", 3u}, {"3", 1u}, {"4", 0u}}) {
    slurm["SLURM_NODEID"] = node;
    CHECK(here(slurm) == processes);
  }
  // torchrun in a step of Slurm.
  slurm["LOCAL_WORLD_SIZE"] = "2";
  CHECK(here(slurm) == 2);
  CHECK_FALSE(find_local_place(slurm).bound);
}

TEST_CASE("launchers say which process of its host this is", "[launch]") {
  auto rank = [](const environment& all) {
    auto found = find_local_place(all).rank;
    return found ? found->cite() : "";
  };
  CHECK(rank({}).empty());
  CHECK(rank({{"LOCAL_RANK", "2"}}) == "LOCAL_RANK=2");
  CHECK(rank({{"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
              {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}}) ==
        "OMPI_COMM_WORLD_LOCAL_RANK=1");
  environment slurm{{"SLURM_LOCALID", "0"}};
  // Of a batch script, and of what a process that is alone starts itself: all
  // of them have it.
  CHECK(rank(slurm).empty());
  slurm["SLURM_STEP_TASKS_PER_NODE"] = "1";
  CHECK(rank(slurm).empty());
  slurm["SLURM_STEP_TASKS_PER_NODE"] = "2";
  CHECK(rank(slurm) == "SLURM_LOCALID=0");
  slurm["LOCAL_RANK"] = "5";
  CHECK(rank(slurm) == "LOCAL_RANK=5");
}
