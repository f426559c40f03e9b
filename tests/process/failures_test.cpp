// Why did it end? What a run and a launch say about the first failure.

#include "tests/process/launched.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <unistd.h>

#include <csignal>

using namespace troupe::testing;
using Catch::Matchers::ContainsSubstring;

namespace {

std::string this_host() {
  char name[256] = {};
  gethostname(name, sizeof name - 1);
  return name;
}

bool has_line(const json& failure, const std::string& part) {
  for (const std::string line : failure["lines"])
    if (line.find(part) != std::string::npos)
      return true;
  return false;
}

/// A launch whose workers run this command of the shell.
launched with_workers(const std::string& command, const flags& own = {}) {
  return launched{own,
                  {"/bin/sh", "-c", command},
                  {},
                  with_variables({{"TROUPE_TRAINING_EPOCHS", "1"},
                                  {"TROUPE_TRAINING_TRAIN_DIR", "run"}})};
}

} // namespace

TEST_CASE("a worker that is killed is the first failure") {
  launched it{{"--max-restarts", "2"}, {}, endless};
  it.process.await("\\[worker-0\\] connected");
  it.process.await("\\[worker-1\\] connected");
  auto victim = it.find("worker [^-]*.*--rank 1");
  kill(victim, SIGKILL);
  it.process.await("joined +worker 1 \\(life 2");
  kill(it.find("worker [^-]*.*--rank 0"), SIGKILL);
  it.process.await("joined +worker 0 \\(life 2");
  it.process.signal(SIGTERM);
  CHECK(it.process.wait() == 75);
  INFO(it.process.report());
  auto first = it.on.summary()["first_failure"];
  CHECK(first["role"] == "worker");
  CHECK(first["rank"] == 1);
  CHECK(first["host"] == this_host());
  CHECK(first["pid"] == victim);
  CHECK(first["time"] > 0);
  CHECK(first["what"] == "connection lost; its process was killed by SIGKILL");
  CHECK(has_line(first, "connected "));
  CHECK(it.process.said("\\[worker-1\\] first failure: was killed by SIGKILL "
                        "after [\\d.]+ s \\(" +
                        this_host() + ", pid " + std::to_string(victim) +
                        "\\)"));
  CHECK(it.process.said("\\[worker-0\\] failed later: was killed by SIGKILL"));
  CHECK(it.on.summary()["slowness"].size() == 2);
  check_replayed(it.on);
}

TEST_CASE("a server that is killed is the first failure of its next life") {
  launched it{{"--max-restarts", "1"}, {}, endless};
  it.process.await("checkpoint +step-");
  auto victim = it.find("ps");
  kill(victim, SIGKILL);
  it.process.await("\\[ps\\] resumed[\\s\\S]*joined");
  it.process.signal(SIGTERM);
  CHECK(it.process.wait() == 75);
  INFO(it.process.report());
  auto first = it.on.summary()["first_failure"];
  CHECK(first["role"] == "ps");
  CHECK(first["rank"] == 0);
  CHECK(first["pid"] == victim);
  CHECK(first["what"] == "was killed by SIGKILL");
  check_replayed(it.on);
}

TEST_CASE("a command that never joins says why, and the launch repeats it") {
  auto it = with_workers("until [ -e run/config.ini ]; do sleep 0.02; done; "
                         "sleep 0.5; echo no such file; exit 3");
  CHECK(it.process.wait() == 1);
  INFO(it.process.report());
  CHECK(it.process.said("\\[worker-\\d\\] first failure: ended with status 3 "
                        "after [^\n]*\n\\[worker-\\d\\]   no such file\n"
                        "\\[worker-\\d\\] failed later: "));
  auto first = it.on.summary()["first_failure"];
  CHECK(first["role"] == "worker");
  CHECK(first["what"] == "ended with status 3");
  CHECK(first["lines"] == json{"no such file"});
}

TEST_CASE("when a server fails, what follows from it is collateral") {
  launched it{{}, {}, endless};
  it.process.await("\\[worker-0\\] connected");
  it.process.await("\\[worker-1\\] connected");
  kill(it.find("ps"), SIGKILL);
  CHECK(it.process.wait() == 1);
  INFO(it.process.report());
  CHECK(it.process.said("\\[ps\\] first failure: was killed by SIGKILL"));
  for (std::string rank : {"0", "1"})
    CHECK(it.process.said("\\[worker-" + rank +
                          "\\] collateral: ended with status \\d+ after "
                          "[^\n]*, since ps had failed"));
  CHECK_FALSE(it.process.said("failed later"));
}

TEST_CASE(
  "a run without a failure has none, and workers are as slow as others") {
  process_fixture on;
  auto run = on.simulate({"--workers", "3", "--epochs", "1"});
  check_end(run, 0);
  CHECK(on.summary()["first_failure"].is_null());
  CHECK(on.summary()["slowness"].size() == 3);
  for (const auto& line : on.metrics())
    if (line["kind"] == "epoch")
      CHECK(line["slowness"].size() == 3);
}

TEST_CASE("a slow worker has a score in a virtual run") {
  process_fixture on;
  auto run =
    on.simulate({"--clock", "virtual", "--gradients", "none", "--workers", "5",
                 "--max-steps", "20", "--policy", "sync", "--compute-time",
                 "slow(base=constant(1),worker=3,factor=4)"});
  check_end(run, 0);
  CHECK(on.summary()["slowness"] == json{1.0, 1.0, 1.0, 4.0, 1.0});
}

TEST_CASE("the reason is in the file of TorchElastic") {
  process_fixture on;
  auto file = on.home() / "error.json";
  auto how = with_variables({{"TORCHELASTIC_ERROR_FILE", file.string()}});
  auto worker = on.start(
    "worker",
    {"--role", "worker", "--port", on.port(), "--connect-timeout", "0.1"}, how);
  check_end(worker, 1);
  auto said = json::parse(slurp(file))["message"];
  CHECK("trainer_node: " + said["message"].get<std::string>() + "\n" ==
        worker.err());
  CHECK(said["extraInfo"]["py_callstack"].is_string());
  auto time = std::stoll(said["extraInfo"]["timestamp"].get<std::string>());
  CHECK(time > 1'700'000'000);
  // The first failure stays.
  auto before = slurp(file);
  auto other = on.start("other", {"--lr", "x"}, how);
  check_end(other, 2);
  CHECK(slurp(file) == before);
}

TEST_CASE("a stop is no failure for TorchElastic") {
  process_fixture on;
  auto file = on.home() / "error.json";
  auto worker =
    on.start("worker", {"--role", "worker", "--port", on.port()},
             with_variables({{"TORCHELASTIC_ERROR_FILE", file.string()}}));
  worker.await("waiting ");
  worker.signal(SIGTERM);
  worker.wait();
  CHECK_FALSE(std::filesystem::exists(file));
}
