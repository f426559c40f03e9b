// A whole cluster that one command starts: trainer_node launch.

#include "tests/process/launched.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <regex>
#include <set>
#include <thread>

using namespace troupe::testing;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::StartsWith;

namespace {

std::vector<pid_t> all_processes() {
  std::vector<pid_t> out;
  for (const auto& entry : std::filesystem::directory_iterator{"/proc"})
    if (auto pid = std::atoi(entry.path().filename().c_str()); pid > 0)
      out.push_back(pid);
  return out;
}

bool is_zombie(pid_t pid) {
  auto status = slurp("/proc/" + std::to_string(pid) + "/status");
  return status.find("State:\tZ") != std::string::npos;
}

} // namespace

TEST_CASE("one command runs a cluster, and says who says what") {
  launched it{{"--evaluator", "--log-dir", "logs"}};
  CHECK(it.process.wait() == 0);
  INFO(it.process.report());
  CHECK(it.on.summary()["samples_applied"] == 4 * digits);
  CHECK(it.on.summary()["final_accuracy"] > 0.5);
  CHECK_THAT(it.process.out(), ContainsSubstring("[ps] joined       worker 1"));
  for (std::string rank : {"0", "1"}) {
    auto name = "\\[worker-" + rank + "\\] ";
    CHECK(it.process.said(name + "connected +to [^ ]+ as worker " + rank));
    CHECK(it.process.said(name + "ended +the run is over"));
    CHECK(it.process.said("\\[ps\\] joined +worker " + rank +
                          " \\([^ ]+, pid \\d+\\)"));
  }
  CHECK_THAT(it.process.out(), ContainsSubstring("[evaluator] "));
  auto logs = files_below(it.on.home() / "logs");
  CHECK(logs == std::vector<std::string>{"evaluator.log", "ps.log",
                                         "worker-0.log", "worker-1.log"});
}

TEST_CASE("shards are processes of their own") {
  launched it{{"--ps", "2"}};
  CHECK(it.process.wait() == 0);
  INFO(it.process.report());
  CHECK(it.on.summary()["shards"] == 2);
  CHECK_THAT(it.process.out(), ContainsSubstring("[ps-1] "));
}

TEST_CASE("a worker that dies is started again, as often as was said") {
  launched it{{"--max-restarts", "1"}, {}, endless};
  // A worker that is killed earlier does not say that it had a place.
  it.process.await("\\[worker-0\\] connected");
  it.process.await("\\[worker-1\\] connected");
  auto victim = it.find("worker");
  kill(victim, SIGKILL);
  it.process.await("ended with status 137: is started again");
  it.process.await("\\[ps\\] left[^\n]*\n(.|\n)*\\[ps\\] joined");
  it.process.await("is started again[\\s\\S]*\\[worker-\\d\\] connected");
  it.process.signal(SIGTERM);
  CHECK(it.process.wait() == 75);
  INFO(it.process.report());
  CHECK(it.on.summary()["status"] == "stopped");
  auto said = it.process.out();
  const std::regex place{"\\[worker-(\\d)\\] connected [^\n]* worker (\\d)"};
  auto places = std::sregex_iterator{said.begin(), said.end(), place};
  CHECK(std::distance(places, {}) >= 3);
  for (; places != std::sregex_iterator{}; ++places)
    CHECK((*places)[1] == (*places)[2]);
  check_replayed(it.on);
}

TEST_CASE("nobody waits for a worker that finds no server any more") {
  launched it{{"--max-restarts", "1"}, {}, endless};
  it.process.await("\\[worker-0\\] connected");
  it.process.await("\\[worker-1\\] connected");
  kill(it.find("worker"), SIGKILL);
  it.process.await("is started again");
  it.process.signal(SIGTERM);
  auto told = std::chrono::steady_clock::now();
  CHECK(it.process.wait() == 75);
  // The others would have 15 s to end by themselves.
  CHECK(std::chrono::steady_clock::now() - told < std::chrono::seconds(10));
  INFO(it.process.report());
  CHECK(it.on.summary()["status"] == "stopped");
}

TEST_CASE("a command of the user's may work on when the run is over") {
  // The command prints no line of its node's, as a Python program prints none.
  launched it{{},
              {"/bin/sh", "-c",
               "\"$TROUPE_TRAINER_NODE\" --role worker > /dev/null; sleep 1; "
               "echo its work is saved"}};
  CHECK(it.process.wait() == 0);
  INFO(it.process.report());
  for (std::string rank : {"0", "1"})
    CHECK(it.process.said("\\[worker-" + rank + "\\] its work is saved"));
}

TEST_CASE("a server that dies goes on from its checkpoint") {
  launched it{{"--max-restarts", "1"}, {}, endless};
  it.process.await("checkpoint +step-");
  kill(it.find("ps"), SIGKILL);
  it.process.await("\\[ps\\] ended with status 137: is started again");
  it.process.await("resumed|continues|checkpoint step-");
  auto from = it.on.metrics().size();
  eventually("more steps", [&] { return it.on.metrics().size() > from + 20; });
  it.process.signal(SIGINT);
  CHECK(it.process.wait() == 75);
  check_replayed(it.on);
}

TEST_CASE(
  "a server that is started again goes on with its run, whatever it was "
  "told, until its terminal is closed") {
  launched it{{"--max-restarts", "1"},
              endless + flags{"--threads", "1", "--overwrite"}};
  it.process.await("checkpoint +step-");
  kill(it.find("ps"), SIGKILL);
  it.process.await("\\[ps\\] ended with status 137: is started again");
  it.process.await("\\[ps\\] resumed +from step [1-9]");
  for (auto number : {SIGHUP, SIGCONT, SIGHUP})
    it.process.signal(number);
  CHECK(it.process.wait() == 75);
  auto run = it.on.home() / "runs/lenet-1"; // No train-dir was given.
  CHECK(committed_of(read_metrics(run)).resumes == 1);
}

TEST_CASE("a launch goes on when it has lost a shard") {
  launched it{{"--ps", "2", "--max-restarts", "1"}, {}, endless};
  it.process.await("checkpoint +step-");
  kill(it.find("ps .*--rank 1 "), SIGKILL);
  it.process.await("\\[ps-1\\] ended with status 137: is started again");
  it.process.await("\\[ps-0\\] ended with status 1: is started again");
  it.process.await("\\[ps-0\\] resumed +from step");
  auto from = it.on.metrics().size();
  eventually("more steps", [&] { return it.on.metrics().size() > from + 20; });
  CHECK_FALSE(it.process.said("\\[worker-[01]\\] ended"));
  it.process.signal(SIGTERM);
  CHECK(it.process.wait() == 75);
  check_replayed(it.on);
}

TEST_CASE("what a worker has left behind ends with the launch, which reaps it, "
          "and which nohup keeps") {
  child_options how;
  how.under_nohup = true;
  launched it{{},
              {"/bin/sh", "-c",
               "(sh -c 'sleep 0.2; echo an orphan ends' &); sleep 987 & "
               "setsid sleep 986 & sleep 2; exit 1"},
              {},
              how};
  it.process.await("an orphan ends");
  it.process.signal(SIGHUP);
  eventually("no zombie", [&] {
    return std::ranges::none_of(children_of(it.process.pid()), is_zombie);
  });
  CHECK(it.process.running());
  CHECK(it.process.wait() == 1); // Not that of a launch that was stopped.
  for (auto pid : all_processes())
    CHECK(command_of(pid).find("sleep 98") == std::string::npos);
}

TEST_CASE("without its launcher nothing is left") {
  launched it{{}, {}, endless};
  it.process.await("joined +worker 1");
  auto started = children_of(it.process.pid());
  CHECK(started.size() == 3);
  it.process.kill();
  it.check_nothing_is_left(started);
}

TEST_CASE("a launch ends when its workers have failed") {
  launched it{{}, {"false"}};
  CHECK(it.process.wait() == 1);
  INFO(it.process.report());
  CHECK_THAT(it.process.out(),
             ContainsSubstring("[worker-0] ended with status 1"));
  CHECK_THAT(it.process.out(), ContainsSubstring("all workers have ended"));
}

TEST_CASE("a launch of a script says how a script is started") {
  launched it{{}, {"train.py"}};
  CHECK(it.process.wait() == 1);
  CHECK_THAT(it.process.out(),
             ContainsSubstring("cannot start train.py: No such file or "
                               "directory; give Python, too: -- python "
                               "train.py"));
}

TEST_CASE("a launch ends when its workers have left before the run is over") {
  launched it{{}, {"true"}};
  CHECK(it.process.wait() == 75);
  CHECK_THAT(it.process.out(),
             ContainsSubstring("[ps] is told to stop: all workers have ended"));
}

TEST_CASE("a run that is completed is a success, though a worker died") {
  launched it{{"--evaluator"}, {}, {"--epochs", "8"}};
  // Of a worker that dies before the other has joined, the server waits for
  // another life.
  it.process.await("joined +worker 0");
  it.process.await("joined +worker 1");
  auto worker = it.find("worker");
  kill(worker, SIGSTOP); // The run waits for it until all is prepared.
  it.process.await("connected .* as evaluator");
  auto evaluator = it.find("evaluator");
  // The server waits for the last score when the other worker has ended.
  kill(evaluator, SIGSTOP);
  kill(worker, SIGKILL);
  it.process.await("is told to stop: all workers have ended");
  kill(evaluator, SIGCONT);
  CHECK(it.process.wait() == 0);
  CHECK(it.on.summary()["status"] == "completed");
  check_replayed(it.on);
}

namespace {

const flags tells_its_share{
  "/bin/sh", "-c",
  "echo $OMP_NUM_THREADS threads, spin $GOMP_SPINCOUNT, GPU $LOCAL_RANK; "
  "exit 1"};

} // namespace

TEST_CASE(
  "workers are told of their cores, and to let others have them, and of "
  "their GPUs") {
  unsetenv("OMP_NUM_THREADS");
  unsetenv("GOMP_SPINCOUNT");
  unsetenv("OMP_WAIT_POLICY");
  launched it{{}, tells_its_share};
  CHECK(it.process.wait() == 1);
  auto share = std::max(1u, std::thread::hardware_concurrency() / 2);
  for (const std::string rank : {"0", "1"})
    CHECK_THAT(it.process.out(),
               ContainsSubstring("[worker-" + rank + "] " +
                                 std::to_string(share) +
                                 " threads, spin 10000, GPU " + rank));
}

TEST_CASE("threads of workers, and their spinning, are left to who has said") {
  setenv("GOMP_SPINCOUNT", "7", 1);
  setenv("OMP_NUM_THREADS", "3,2", 1);
  launched it{{}, tells_its_share};
  unsetenv("OMP_NUM_THREADS");
  CHECK(it.process.wait() == 1);
  CHECK_THAT(it.process.out(), ContainsSubstring("3,2 threads, spin 7"));
}

TEST_CASE("a launch ends at once, with the reason, when a server is refused") {
  process_fixture on;
  auto other = on.listening_server({"--workers", "1"});
  auto worker = on.worker();
  on.await(other, "an update", is_kind("update"));
  for (const auto& own : {flags{}, flags{"--ps", "2"}}) {
    auto begin = std::chrono::steady_clock::now();
    auto process =
      on.start("launch", flags{"launch", "--workers", "2"} + own +
                           flags{"--", "--train-dir", on.run().string()});
    CHECK(process.wait() == 2);
    INFO(process.report());
    CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(8));
    CHECK_THAT(process.err(), StartsWith("trainer_node: ") &&
                                ContainsSubstring(on.run().string()));
  }
}

TEST_CASE("a command that is not there is one line") {
  launched it{{}, {"./absent"}};
  CHECK(it.process.wait() == 1);
  CHECK_THAT(it.process.out(),
             ContainsSubstring("[worker-1] trainer_node: cannot start "
                               "./absent: No such file or directory"));
}

TEST_CASE("a wrong launch is refused before anything starts") {
  process_fixture on;
  auto refusal = [&](const flags& more) {
    auto process = on.start("launch", flags{"launch"} + more);
    CHECK(process.wait() == 2);
    CHECK(process.out().empty());
    return process.err();
  };
  CHECK_THAT(refusal({"--worker", "2"}), ContainsSubstring("--worker"));
  CHECK_THAT(refusal({"--workers", "0"}), ContainsSubstring("--workers"));
  CHECK_THAT(refusal({"--", "--batchsize", "3"}),
             ContainsSubstring("unknown flag '--batchsize'; did you mean"));
  CHECK_THAT(refusal({"--config", "absent.ini"}),
             ContainsSubstring("absent.ini"));
}
