// Real nodes over each path that tensors can take, and what becomes of a run
// when its path breaks.

#include "tests/process/partitions.hpp"
#include "tests/process/process_fixture.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <fstream>
#include <random>
#include <thread>

using namespace troupe::testing;

namespace {

const flags three_epochs{"--policy", "sync", "--workers", "2", "--epochs", "3",
                         "--seed",   "5",    "--threads", "1"};

flags over(const std::string& transport) {
  return {"--transport", transport, "--threads", "1"};
}

/// Small batches of pictures for a network that normalises.
const flags normalised{
  "--network",    "resnet20",
  "--dataset",    "synthetic(shape=3x32x32,classes=10,samples=200)",
  "--max-steps",  "6",
  "--batch-size", "16"};

/// A run of two workers, to its end; the digest of all that comes out: weights,
/// running statistics and the optimiser's slots, to the last bit.
std::string state_over(const std::string& transport, const flags& more = {},
                       const flags& workers = {}) {
  process_fixture on;
  auto server =
    on.listening_server(three_epochs + flags{"--transport", transport} + more);
  auto evaluator = on.evaluator(over(transport));
  auto first = on.worker(over(transport) + workers);
  auto second = on.worker(over(transport) + workers);
  for (auto* one : {&server, &first, &second, &evaluator})
    check_end(*one, 0);
  auto summary = on.summary();
  INFO(summary.dump(2));
  auto named = transport == "auto" ? "shm" : transport;
  CHECK(summary["transport"]["worker-0"] == named);
  CHECK(summary["transport"]["worker-1"] == named);
  CHECK(first.said("connected .* as worker \\d over " + named));
  CHECK(evaluator.said("connected .* as evaluator over " + named));
  CHECK_FALSE(first.said("path  "));
  REQUIRE(summary["state_sha256"].is_string());
  return summary["state_sha256"];
}

// -- how a path breaks --------------------------------------------------------

/// Whether a socket of another process is an end of a path: over TCP by its
/// buffers, which control connections leave to the kernel; over Unix by the
/// name of the far end.
bool is_path(int fd, const std::string& transport, int server) {
  sockaddr_storage there{};
  socklen_t size = sizeof there;
  if (getpeername(fd, reinterpret_cast<sockaddr*>(&there), &size) != 0)
    return false;
  if (transport == "shm")
    return there.ss_family == AF_UNIX && size > sizeof(sa_family_t) + 1 &&
           std::strncmp(reinterpret_cast<char*>(&there) + sizeof(sa_family_t) +
                          1,
                        "troupe-", 7) == 0;
  unsigned char port[2];
  std::memcpy(port, reinterpret_cast<char*>(&there) + 2, 2);
  return there.ss_family == AF_INET && port[0] * 256 + port[1] == server &&
         has_own_buffers(fd);
}

/// Shuts the path of a process down, as a broken network would. False when it
/// has none yet.
bool cut_path(pid_t process, const std::string& transport, int server) {
  auto whole = static_cast<int>(syscall(SYS_pidfd_open, process, 0));
  auto cut = false;
  for (int fd = 3; fd < 256; ++fd) {
    auto copy = static_cast<int>(syscall(SYS_pidfd_getfd, whole, fd, 0));
    if (copy < 0)
      continue;
    if (is_path(copy, transport, server)) {
      shutdown(copy, SHUT_RDWR);
      cut = true;
    }
    close(copy);
  }
  close(whole);
  return cut;
}

/// Regions of shared memory that a process maps.
size_t regions_of(pid_t process) {
  std::ifstream in{"/proc/" + std::to_string(process) + "/maps"};
  size_t out = 0;
  for (std::string line; std::getline(in, line);)
    out += line.find("memfd:troupe") != std::string::npos;
  return out;
}

void check_break(const std::string& transport, const std::string& next,
                 const flags& workers = {}) {
  INFO(transport);
  process_fixture on;
  auto server = on.listening_server(
    {"--policy", "async", "--workers", "2", "--epochs", "20", "--transport",
     transport == "stream" ? "stream" : "auto"});
  auto worker = on.worker(flags{"--threads", "1"} + workers);
  auto other = on.worker(flags{"--threads", "1"} + workers);
  worker.await("connected .* over " + transport);
  auto begun = on.await(server, "training", is_kind("update"));
  REQUIRE(cut_path(worker.pid(), transport, std::stoi(on.port())));
  worker.await("path +" + transport + " is not used for a minute");
  worker.await("connected .* over " + next);
  on.await(server, "that it is back", is_kind("joined"), begun);
  check_end(server, 0);
  check_end(worker, 0);
  check_end(other, 0);
  auto summary = on.summary();
  CHECK(summary["status"] == "completed");
  CHECK(committed_of(on.metrics()).updates.size() == summary["steps"]);
  CHECK(other.said("over " + transport));
  CHECK_FALSE(other.said("is not used for a minute"));
}

} // namespace

TEST_CASE("every path gives the same weights") {
  auto expected = state_over("chunked");
  CHECK(state_over("stream") == expected);
  CHECK(state_over("shm") == expected);
  CHECK(state_over("auto") == expected);
}

TEST_CASE("every path gives the same running statistics") {
  auto expected = state_over("chunked", normalised);
  CHECK(state_over("stream", normalised) == expected);
  CHECK(state_over("shm", normalised) == expected);
}

TEST_CASE("every path carries fragments, also while steps are made") {
  auto how = normalised + flags{"--local-steps",   "3", "--fragments", "3",
                                "--overlap-steps", "2"};
  auto expected = state_over("shm", how);
  CHECK(state_over("stream", how) == expected);
  CHECK(state_over("chunked", how) == expected);
  auto compressed = how + flags{"--compression", "int8"};
  expected = state_over("shm", compressed);
  CHECK(state_over("stream", compressed) == expected);
  CHECK(state_over("chunked", compressed) == expected);
}

TEST_CASE("every path gives the same bits of float64") {
  for (const auto& what : {flags{"--max-steps", "12"}, normalised}) {
    auto wide = what + flags{"--dtype", "float64"};
    auto expected = state_over("chunked", wide);
    CHECK(state_over("stream", wide) == expected);
    CHECK(state_over("shm", wide) == expected);
  }
}

TEST_CASE("compressed gradients give the same weights over every path") {
  std::string before;
  for (std::string how : {"fp16", "topk(share=0.1)"}) {
    INFO(how);
    const flags compressed{"--compression", how};
    auto expected = state_over("chunked", compressed);
    CHECK(state_over("stream", compressed) == expected);
    CHECK(state_over("shm", compressed) == expected);
    CHECK(expected != before);
    before = expected;
  }
}

TEST_CASE("tensors that travel while they are made and used give the same "
          "weights") {
  for (const auto& more : {flags{}, normalised}) {
    auto expected = state_over("stream", more, {"--overlap", "off"});
    CHECK(state_over("stream", more, {"--overlap", "on"}) == expected);
  }
}

TEST_CASE("workers that come again go on from what compression left out") {
  const flags what{"--policy",  "sync", "--workers",     "2",
                   "--threads", "1",    "--compression", "topk(share=0.05)"};
  auto weights_of = [&](process_fixture& on, const flags& more) {
    auto server = on.listening_server(what + more);
    auto own = flags{"--threads", "1", "--train-dir", on.run().string()};
    // Ranks are asked for: each is to find what it left.
    auto first = on.worker(own + flags{"--rank", "0"});
    auto second = on.worker(own + flags{"--rank", "1"});
    for (auto* one : {&server, &first, &second})
      check_end(*one, 0);
    return on.summary()["state_sha256"].get<std::string>();
  };
  process_fixture whole, parts;
  auto expected = weights_of(whole, {"--max-steps", "20"});
  weights_of(parts, {"--max-steps", "9"});
  CHECK(weights_of(parts, {"--max-steps", "20", "--resume", "auto"}) ==
        expected);
}

TEST_CASE("shared memory that breaks gives way to the stream") {
  check_break("shm", "stream");
}

TEST_CASE("a stream that breaks while tensors are made and used gives way, "
          "too") {
  check_break("stream", "chunked", {"--overlap", "on"});
}

TEST_CASE("a stream that breaks gives way to chunks") {
  check_break("stream", "chunked");
}

TEST_CASE("a path that is not offered is refused with a line") {
  process_fixture on;
  auto server = on.listening_server({"--transport", "chunked"});
  auto worker = on.worker(over("shm"));
  check_end(worker, 1);
  CHECK(worker.err() ==
        "trainer_node: --transport shm: the parameter server does not offer "
        "this path; give both nodes the same transport, or auto\n");
}

TEST_CASE("without shared memory the stream is taken, with a line that says "
          "why") {
  process_fixture on;
  auto server = on.listening_server(three_epochs);
  child_options small;
  small.largest_file = 60'000; // Less than a gradient.
  auto worker = on.start(
    "small", {"--role", "worker", "--port", on.port(), "--threads", "1"},
    small);
  auto other = on.worker({"--threads", "1"});
  check_end(server, 0);
  check_end(worker, 0);
  check_end(other, 0);
  CHECK(worker.said("path +shm is not used: fallocate of \\d+ bytes of shared "
                    "memory: File too large"));
  CHECK(worker.said("over stream"));
  CHECK(other.said("over shm"));
}

TEST_CASE("workers killed again and again leave nothing at the server") {
  process_fixture on{recorded};
  std::mt19937_64 random{7};
  auto server = on.listening_server(
    {"--policy", "async", "--workers", "2", "--epochs", "1000"});
  auto stays = on.worker();
  size_t from = on.await(server, "training", [](const json& line) {
    return line["kind"] == "joined";
  });
  std::vector<size_t> regions;
  for (int i = 0; i < 8; ++i) {
    auto dies = on.worker();
    dies.await("connected .* over shm");
    // Before that the server has fewer versions than it will use.
    on.await(server, "versions that come and go", [](const json& line) {
      return line["kind"] == "update" && line["step"] >= 30;
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(random() % 400));
    dies.kill();
    from = on.await(server, "that it left", is_kind("left"), from + 1);
    regions.push_back(regions_of(server.pid()));
  }
  INFO(server.report());
  // The regions of versions in use and of one worker's gradients: those of dead
  // workers do not add up.
  CHECK(*std::max_element(regions.begin(), regions.end()) <= 16);
  CHECK(regions.back() <= regions.front() + 4);
  server.signal(SIGTERM);
  check_end(server, 75); // Stopped by a signal.
  check_end(stays, 0);
  CHECK(on.summary()["gradients_refused"] == 0);
  check_replayed(on);
}

TEST_CASE("a cluster meets at an IPv6 address, with brackets or without") {
  if (!std::ifstream{"/proc/net/if_inet6"})
    SKIP("this machine has no IPv6");
  process_fixture on;
  const flags loopback{"--host", "[::1]", "--max-steps", "3"};
  auto server = on.listening_server(loopback + flags{"--workers", "2"});
  CHECK(server.said("listening +on \\[::1\\]:" + on.port()));
  auto first = on.worker({"--host", "::1"});
  auto second = on.worker({"--host", "[::1]"});
  for (auto* one : {&server, &first, &second})
    check_end(*one, 0);
  CHECK(first.said("connected +to \\[::1\\]:" + on.port()));
}
