// `--autocast auto`: what is decided depends on the processor, so these tests
// check that it is decided once, kept, and the same for all.

#include "tests/process/process_fixture.hpp"
#include "tests/support/temporary_folder.hpp"

#include <catch2/catch_test_macros.hpp>

#include <csignal>
#include <regex>

using namespace troupe::testing;

namespace {

const flags brief{"--autocast", "auto", "--max-steps", "12",
                  "--workers",  "2",    "--policy",    "async"};

std::string kept_in(const std::filesystem::path& run) {
  std::smatch found;
  auto text = slurp(run / "config.ini");
  if (!std::regex_search(text, found, std::regex{"\nautocast = (\\S+)"}))
    throw std::runtime_error("no autocast in " + run.string());
  return found[1];
}

} // namespace

TEST_CASE("one process measures bfloat16 for itself") {
  process_fixture on;
  auto cluster = on.simulate(brief);
  check_end(cluster, 0);
  auto kept = kept_in(on.run());
  CHECK((kept == "none" || kept == "bf16"));
  CHECK(cluster.said("autocast     " + kept + ": "));
  CHECK(on.summary()["steps"] == 12);

  // A run that goes on measures nothing, and keeps what it has.
  auto later = on.simulate(
    flags{"--resume", "auto", "--autocast", "auto", "--max-steps", "20"});
  check_end(later, 0);
  CHECK_FALSE(later.said("autocast "));
  CHECK(kept_in(on.run()) == kept);
  CHECK(on.summary()["steps"] == 20);
}

TEST_CASE("the virtual clock decides nothing by measurement") {
  process_fixture on;
  auto cluster = on.simulate(brief + flags{"--clock", "virtual"});
  check_end(cluster, 0);
  CHECK(kept_in(on.run()) == "none");
}

TEST_CASE("workers of a cluster measure bfloat16 before it begins") {
  process_fixture on;
  auto server = on.listening_server(brief);
  auto one = on.worker({"--autocast", "auto"});
  auto other = on.worker();
  check_end(server, 0);
  check_end(one, 0);
  check_end(other, 0);
  auto kept = kept_in(on.run());
  CHECK(server.said("autocast     " + kept + ": "));
  CHECK(on.summary()["steps"] == 12);
}

TEST_CASE("a server that waits for measurements can be stopped") {
  process_fixture on;
  auto server = on.listening_server(brief);
  server.signal(SIGTERM);
  check_end(server, 75);
  CHECK_FALSE(std::filesystem::exists(on.run() / "config.ini"));
}

TEST_CASE("a worker that insists on a type is refused after the decision") {
  process_fixture on;
  auto server = on.listening_server(
    brief + flags{"--dtype", "float64"}); // For which there is no bfloat16.
  auto worker = on.worker({"--autocast", "bf16"});
  check_end(worker, 2);
  CHECK(worker.err().find("autocast") != std::string::npos);
  server.signal(SIGTERM);
  check_end(server, 75);
}
