// Launches over ssh: a real sshd listens at several addresses of this machine.

#include "tests/process/ssh_hosts.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <thread>

using namespace troupe::testing;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::Equals;
using Catch::Matchers::StartsWith;

namespace {

const flags endless{"--epochs", "100000", "--checkpoint-freq", "10"};

void check_nothing_runs(const ssh_hosts& there) {
  eventually("the end of all nodes", [&] { return there.nodes().empty(); });
}

} // namespace

TEST_CASE("hosts get the program, and what they say comes back with names") {
  ssh_hosts there;
  // It is copied, whatever earlier tests have left.
  std::error_code none;
  for (const auto& one : std::filesystem::directory_iterator{
         ssh_hosts::cache() / "troupe/launch", none})
    if (one.path().filename().string().starts_with("trainer_node-"))
      std::filesystem::remove(one);
  auto process = there.launch({"--workers", "3", "--log-dir", "logs"},
                              there.recorded_run({"--epochs", "1"}));
  CHECK(process.wait() == 0);
  INFO(process.report());
  CHECK(there.on.summary()["samples_applied"] == digits);
  CHECK_THAT(process.out(), ContainsSubstring("host         127.0.0.2: in ") &&
                              ContainsSubstring(", ps, worker-2\n"));
  for (std::string rank : {"0", "1", "2"})
    CHECK(process.said("\\[worker-" + rank +
                       "\\] connected +to 127.0.0.2:\\d+ as worker " + rank));
  auto logs = files_below(there.on.home() / "logs");
  CHECK(logs == std::vector<std::string>{"ps.log", "worker-0.log",
                                         "worker-1.log", "worker-2.log"});
  CHECK_THAT(slurp(there.on.home() / "logs/worker-1.log"),
             ContainsSubstring("connected"));
  check_replayed(there.on);
}

TEST_CASE("what dies on its host is started again there") {
  ssh_hosts there;
  auto process = there.launch({"--workers", "2", "--max-restarts", "3"},
                              there.recorded_run(endless));
  process.await("checkpoint +step-");
  kill(there.find("--role worker .*--rank 1 "), SIGKILL);
  process.await("\\[worker-1\\] ended with status 137: is started again");
  process.await("left[\\s\\S]*\\[ps\\] joined +worker 1");
  kill(there.find("--role ps "), SIGKILL);
  process.await("\\[ps\\] ended with status 137: is started again");
  process.await("\\[ps\\] resumed +from step [1-9]");
  // The connection of the host that has worker 0.
  auto agent = child{
    {"/bin/sh", "-c",
     "pgrep -f -n \"^ssh -F " + there.path("config") + " .*127.0.0.3 exec\""},
    there.path("pgrep")};
  CHECK(agent.wait() == 0);
  kill(std::stoi(agent.out()), SIGKILL);
  process.await("hosts:2: host 127.0.0.3: ssh has ended with status 137");
  process.await("\\[worker-0\\] ended with status 255: is started again");
  process.await("host 127.0.0.3: is connected again");
  process.await("connected again[\\s\\S]*\\[worker-0\\] connected");
  process.signal(SIGINT);
  CHECK(process.wait() == 75);
  INFO(process.report());
  CHECK(there.on.summary()["status"] == "stopped");
  check_nothing_runs(there);
  check_replayed(there.on);
}

TEST_CASE("nothing is left on any host when the launch is killed") {
  ssh_hosts there;
  auto process = there.launch({"--workers", "2"}, there.recorded_run(endless));
  process.await("joined +worker 1");
  CHECK(there.nodes().size() == 3);
  process.kill();
  check_nothing_runs(there);
}

TEST_CASE("what a command has started on a host ends with the launch") {
  ssh_hosts there;
  auto mark = there.path("mark");
  auto process = there.launch(
    {"--workers", "2"},
    {"/bin/sh", "-c",
     "setsid sh -c 'while sleep 0.1; do echo >> " + mark +
       "; done' & "
       "echo LD=$LD_LIBRARY_PATH, OMP=$OMP_NUM_THREADS, $LOCAL_RANK of $HOME; "
       "\"$TROUPE_TRAINER_NODE\" --role worker > /dev/null; exit 3"});
  process.await("\\[worker-1\\] LD=, OMP=\\d+, 0 of .*home-127.0.0.4");
  process.await("joined +worker 1");
  process.signal(SIGTERM);
  CHECK(process.wait() == 75);
  auto size = std::filesystem::file_size(mark);
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  CHECK(std::filesystem::file_size(mark) == size);
}

TEST_CASE("the settings and copies go along to hosts that do not have them") {
  if (::geteuid() != 0)
    SKIP("this needs root, and the right to make mount namespaces");
  ssh_hosts there;
  for (const auto& name : there.names)
    std::filesystem::create_directories(there.home_of(name) / "work");
  auto here = there.on.home();
  std::filesystem::create_directories(here / "parts/a");
  std::ofstream{here / "c.ini"} << "[training]\nmax-steps = 3\n";
  std::ofstream{here / "parts/a/b"} << std::string(700'000, 'x');
  std::ofstream{here / "train.sh"}
    << "wc -c < parts/a/b\n"
       "\"$TROUPE_TRAINER_NODE\" --role worker\n";
  for (int times = 0; times < 2; ++times) {
    auto process = there.launch({"--workers", "2", "--config", "c.ini",
                                 "--copy", "train.sh", "--copy", "parts"},
                                {"sh", "train.sh"});
    CHECK(process.wait() == 0);
    INFO(process.report());
    CHECK_THAT(process.out(), ContainsSubstring("[worker-0] 700000\n") &&
                                ContainsSubstring("[worker-1] 700000\n"));
  }
  for (const auto& name : there.names)
    CHECK(std::filesystem::exists(there.home_of(name) / "work/parts/a/b"));
  CHECK(std::filesystem::exists(there.home_of(there.names[0]) /
                                "work/runs/lenet-2/summary.json"));
  CHECK_FALSE(std::filesystem::exists(here / "runs"));
}

TEST_CASE("peers run on several hosts") {
  ssh_hosts there;
  auto process =
    there.launch({"--topology", "peers", "--workers", "3", "--evaluator"},
                 there.recorded_run({"--epochs", "1"}));
  CHECK(process.wait() == 0);
  INFO(process.report());
  CHECK(there.on.summary()["shards"] == 3);
  CHECK(there.on.summary()["final_accuracy"] > 0.2);
  check_replayed(there.on);
}

TEST_CASE("hosts that cannot be used are a line each, and nothing starts") {
  ssh_hosts there;
  auto refusal = [&](const std::string& config, const flags& own, int status) {
    auto process = there.launch(own, {"--epochs", "1"}, config);
    CHECK(process.wait() == status);
    CHECK(there.nodes().empty());
    return process.err();
  };
  auto hosts = "trainer_node: " + there.path("hosts");
  auto refused = refusal("config-other-key", {}, 1);
  for (std::string host : {"1: host 127.0.0.2", "2: host 127.0.0.3"})
    CHECK_THAT(refused, ContainsSubstring(hosts + ":" + host + ": ") &&
                          ContainsSubstring("Permission denied (publickey)") &&
                          ContainsSubstring("give ssh a key"));
  CHECK_THAT(refusal("config-no-port", {}, 1),
             ContainsSubstring("Connection refused: see that sshd runs there"));
  there.write("hosts", "127.0.0.2\n127.0.0.3 slots=2\n127.0.0.2\n");
  CHECK_THAT(refusal("config", {}, 2),
             Equals(hosts + ":3: the host 127.0.0.2 stands at " +
                    there.path("hosts") +
                    ":1 already: give it slots=N there instead\n"));
  there.write("hosts", "127.0.0.2\nnode-7\n");
  CHECK_THAT(refusal("config", {}, 2),
             StartsWith(hosts + ":2: the host node-7 does not reach"));
  there.write("hosts", "127.0.0.2\n127.0.0.3\n");
  CHECK_THAT(refusal("config", {"--copy", "absent"}, 2),
             Equals("trainer_node: --copy absent: there is no such file or "
                    "folder\n"));
}

TEST_CASE("a host whose disk is full says so") {
  if (::geteuid() != 0)
    SKIP("this needs root, and the right to make mount namespaces");
  ssh_hosts there;
  there.write("hosts", "127.0.0.2\n");
  there.write("enter", "#!/bin/sh\nexport HOME=/mnt XDG_CACHE_HOME=/mnt\n"
                       "exec unshare -m sh -c 'mount -t tmpfs -o size=1m none "
                       "/mnt && exec sh -c \"$SSH_ORIGINAL_COMMAND\"'\n");
  auto process = there.launch({}, {"--epochs", "1"});
  CHECK(process.wait() == 1);
  CHECK_THAT(process.err(),
             ContainsSubstring("host 127.0.0.2: ") &&
               ContainsSubstring(": make room in ~/.cache/troupe there"));
}

TEST_CASE("a host may be given by an address of IPv6") {
  std::string loopback(31, '0');
  if (slurp("/proc/net/if_inet6").find(loopback + "1 ") == std::string::npos)
    SKIP("this machine has no IPv6");
  ssh_hosts there;
  there.write("hosts", "::1 slots=2\n");
  auto process = there.launch({}, there.recorded_run({"--epochs", "1"}));
  CHECK(process.wait() == 0);
  INFO(process.report());
  CHECK(
    process.said("\\[worker-0\\] connected +to \\[::1\\]:\\d+ as worker 0"));
  CHECK(there.on.summary()["samples_applied"] == digits);
}

TEST_CASE("more workers than cores is a warning") {
  ssh_hosts there;
  there.write("hosts", "127.0.0.2\n");
  auto workers = std::to_string(std::thread::hardware_concurrency() + 1);
  auto process = there.launch({"--workers", workers}, {"false"});
  CHECK(process.wait() == 1);
  CHECK(process.said("warning +[^\n]*hosts:1: host 127.0.0.2 has \\d+ cores? "
                     "for " +
                     workers + " workers, which slow each other"));
}
