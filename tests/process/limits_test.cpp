// Nodes that run out of file descriptors or memory: nothing spins, nothing
// hangs, and what was short may come back.

#include "tests/process/limits.hpp"

#include <csignal>

using namespace troupe::testing;

TEST_CASE("strangers do not use up the files of a parameter server") {
  process_fixture on;
  auto server =
    on.listening_server({"--workers", "1", "--epochs", "1", "--threads", "1"});
  server.may_open(64);
  strangers all{on.port(), 100};
  auto load = load_of(server);
  INFO("load " << load);
  CHECK(load < 0.3);
  auto worker = on.worker({"--threads", "1"});
  check_end(server, 0);
  check_end(worker, 0);
  CHECK_FALSE(server.said("port +shut"));
}

TEST_CASE("a parameter server that may open no more files lets nodes in when "
          "it may, and its members train on") {
  process_fixture on;
  auto server = on.listening_server({"--workers", "1", "--epochs", "1000",
                                     "--policy", "async", "--threads", "1"});
  auto first = on.worker({"--threads", "1"});
  auto begun = on.await(server, "training", is_kind("update"));
  server.may_open(files_of(server) + 5); // Fewer than it reserves.
  auto second = on.worker({"--threads", "1"});
  server.await("port +shut: \\d+ of the \\d+ files");
  second.await("waiting +for the parameter server .*: it may open no more");
  auto now = std::max(begun, on.metrics().size());
  on.await(server, "more training", is_kind("update"), now);
  server.may_open(256);
  server.await("port +open again");
  on.await(server, "the second worker", is_gradient_of(1), now);
  server.signal(SIGINT);
  check_end(server, 75);
  check_end(first, 0);
  check_end(second, 0);
}

TEST_CASE("nodes that may open few files end in time and say why") {
  child_options limits;
  for (uint64_t files : {12, 20}) {
    INFO(files << " files");
    limits.most_files = files;
    CHECK(end_of_worker(limits) == 1);
    CHECK(end_of_server(limits) == 1);
  }
}

TEST_CASE("nodes that get little memory end in time") {
  child_options limits;
  for (uint64_t megabytes : {600, 900}) {
    INFO(megabytes << " MiB");
    limits.address_space = megabytes << 20;
    CHECK(end_of_worker(limits) != 0);
    end_of_server(limits);
  }
}
