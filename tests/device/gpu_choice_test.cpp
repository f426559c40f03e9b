#include "models/device/gpu_choice.hpp"

#include <catch2/catch_test_macros.hpp>
#include <unistd.h>

#include <string>

using namespace troupe::models;

namespace {

using devices = std::vector<int>;

devices suits(const gpu_wish& wish) {
  auto found = suitable_gpus(wish);
  REQUIRE(std::holds_alternative<devices>(found));
  return std::get<devices>(found);
}

std::string why_not(const std::variant<gpu, std::string>& found) {
  REQUIRE(std::holds_alternative<std::string>(found));
  auto line = std::get<std::string>(found);
  CHECK(line.find('\n') == std::string::npos);
  CHECK(line.find("LOCAL_RANK") != std::string::npos);
  return line;
}

/// Names of GPUs that no other test process takes.
std::string names(int count) {
  std::string out;
  for (int i = 0; i < count; ++i)
    out += (i > 0 ? ",test-" : "test-") + std::to_string(getpid()) + "-" +
           std::to_string(i);
  return out;
}

} // namespace

TEST_CASE("a server takes the first GPU, a worker the next ones") {
  CHECK(suits({4, gpu_owner::server, "", ""}) == devices{0});
  CHECK(suits({4, gpu_owner::worker_of_gpu_server, "", ""}) ==
        devices{1, 2, 3, 0});
  CHECK(suits({1, gpu_owner::worker_of_gpu_server, "", ""}) == devices{0});
}

TEST_CASE("LOCAL_RANK chooses the GPU") {
  CHECK(suits({4, gpu_owner::worker_of_gpu_server, "2", ""}) == devices{2});
  CHECK(suits({4, gpu_owner::server, "0", ""}) == devices{0});
  // Whoever shows each process one GPU has chosen before.
  CHECK(suits({1, gpu_owner::worker_of_gpu_server, "3", "3"}) == devices{0});
  CHECK(suits({2, gpu_owner::worker_of_gpu_server, "3", "", true}) ==
        devices{1});
}

TEST_CASE("the last process beside a server without a GPU takes the first") {
  CHECK(suits({4, gpu_owner::worker, "1", ""}) == devices{1});
  CHECK(suits({4, gpu_owner::worker, "4", ""}) == devices{0});
  auto line = why_not(take_gpu({4, gpu_owner::worker, "5", ""}));
  CHECK(line.starts_with("LOCAL_RANK=5, but there are 4 GPUs"));
}

TEST_CASE("a process for which there is no GPU is told so in a line") {
  auto line = why_not(take_gpu({2, gpu_owner::worker_of_gpu_server, "2", ""}));
  CHECK(line.starts_with("LOCAL_RANK=2, but there are 2 GPUs"));
  CHECK(std::holds_alternative<std::string>(
    suitable_gpus({2, gpu_owner::worker_of_gpu_server, "two", ""})));
}

TEST_CASE("two processes of a host never share a GPU") {
  auto visible = names(2);
  auto server = take_gpu({2, gpu_owner::server, "", visible});
  auto worker = take_gpu({2, gpu_owner::worker_of_gpu_server, "", visible});
  CHECK(std::get<gpu>(server).device == 0);
  CHECK(std::get<gpu>(worker).device == 1);
  auto line =
    why_not(take_gpu({2, gpu_owner::worker_of_gpu_server, "", visible}));
  CHECK(line.starts_with("other processes have taken all 2 GPUs"));
  why_not(take_gpu({2, gpu_owner::worker_of_gpu_server, "1", visible}));
  SECTION("unless NCCL lets them") {
    CHECK(std::get<gpu>(
            take_gpu({2, gpu_owner::worker_of_gpu_server, "1", visible, true}))
            .device == 1);
  }
  SECTION("and one that is given back is free") {
    worker = std::string{};
    auto next = take_gpu({2, gpu_owner::worker_of_gpu_server, "", visible});
    CHECK(std::get<gpu>(next).device == 1);
  }
}
