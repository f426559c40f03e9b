// The same as limits_test.cpp, over all that an operating system may give.

#include "tests/process/limits.hpp"

#include <csignal>
#include <iostream>

using namespace troupe::testing;

TEST_CASE("forty workers share the files of a server that may open 64") {
  process_fixture on;
  auto server = on.listening_server({"--workers", "4", "--policy", "async",
                                     "--epochs", "1000", "--threads", "1"});
  server.may_open(64);
  std::vector<child> workers;
  for (int i = 0; i < 40; ++i)
    workers.push_back(on.worker({"--threads", "1"}));
  server.await("port +shut", std::chrono::seconds(300));
  auto begun = on.await(server, "training", is_kind("update"));
  // Workers that are connected make room for those that are not.
  auto place = std::ranges::find_if(
    workers, [](const child& one) { return one.said("connected"); });
  REQUIRE(place != workers.end());
  for (auto& one : workers)
    if (one.said("connected"))
      one.signal(SIGTERM);
  auto joined = [](const json& line) {
    return line["kind"] == "joined" && line["incarnation"] >= 2;
  };
  on.await(server, "others in their places", joined, begun);
  server.signal(SIGINT);
  check_end(server, 75);
  for (auto& one : workers)
    one.kill();
}

TEST_CASE("nodes end in time whatever number of files they may open") {
  child_options limits;
  for (uint64_t files = 4; files <= 80; files += 4) {
    INFO(files << " files");
    limits.most_files = files;
    auto worker = end_of_worker(limits);
    auto server = end_of_server(limits);
    std::cout << files << " files: worker " << worker << ", server " << server
              << std::endl;
  }
}

TEST_CASE("nodes end in time however much memory they get") {
  child_options limits;
  for (uint64_t megabytes = 200; megabytes <= 3000; megabytes += 200) {
    INFO(megabytes << " MiB");
    limits.address_space = megabytes << 20;
    auto worker = end_of_worker(limits);
    auto server = end_of_server(limits);
    std::cout << megabytes << " MiB: worker " << worker << ", server " << server
              << std::endl;
  }
}
