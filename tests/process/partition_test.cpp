// What does not die but stands still: nodes that are suspended, connections
// that carry nothing, a terminal or a disk that accepts nothing. Each sample
// counts once, and the run ends normally.

#include "tests/process/partitions.hpp"

using namespace troupe::testing;
using namespace std::chrono_literals;

namespace {

/// As `full_pipe`, for all that the process says.
child_options into(const full_pipe& where) {
  child_options out;
  out.output = where.in();
  return out;
}

flags run_in(const process_fixture& on) {
  return on.of_writer() + flags{"--train-dir", on.run().string()};
}

} // namespace

TEST_CASE("a run whose output nobody reads trains to its end") {
  full_pipe nobody;
  process_fixture on{recorded};
  auto all = on.start("simulate",
                      flags{"--simulate", "--workers", "2", "--epochs", "3"} +
                        run_in(on),
                      into(nobody));
  check_end(all, 0);
  check_completed(on, 3);
}

TEST_CASE("nodes whose output nobody reads train to their end") {
  full_pipe nobody;
  process_fixture on{recorded};
  const flags port{"--port", on.port()};
  auto server =
    on.start("ps",
             flags{"--role", "ps", "--workers", "1", "--epochs", "2"} + port +
               run_in(on),
             into(nobody));
  auto worker = on.start(
    "worker", on.of_worker() + flags{"--role", "worker"} + port, into(nobody));
  check_end(server, 0);
  check_end(worker, 0);
  check_completed(on, 2);
}

TEST_CASE("a run that fails says so, and ends, though nobody reads it") {
  full_pipe nobody;
  process_fixture on;
  std::filesystem::create_directories(on.run());
  auto all = on.start("simulate",
                      flags{"--simulate", "--dataset", "mnist", "--data-dir",
                            (on.home() / "no-such-data").string()} +
                        run_in(on),
                      into(nobody));
  check_end(all, 1);
}

TEST_CASE("a cluster in one process that was stopped for long goes on whole") {
  process_fixture on{recorded};
  auto all = on.simulate({"--workers", "3", "--epochs", "12",
                          "--liveness-timeout", "1", "--batch-size", "8"});
  on.await(all, "training", is_kind("update"));
  all.signal(SIGSTOP);
  std::this_thread::sleep_for(3s);
  all.signal(SIGCONT);
  check_end(all, 0);
  check_completed(on, 12);
  CHECK(count_of(on, "joined") == 3);
  // Workers that stop at the end of the run do not count as left.
  CHECK(count_of(on, "left") == 0);
}

TEST_CASE("a worker that stalls for less than the limit keeps its place") {
  process_fixture on{recorded};
  const flags soon{"--liveness-timeout", "4"};
  auto server =
    on.listening_server(soon + flags{"--workers", "2", "--epochs", "10"});
  auto one = on.worker(soon);
  auto other = on.worker(soon);
  on.await(server, "training", is_kind("update"));
  one.signal(SIGSTOP);
  std::this_thread::sleep_for(1500ms);
  one.signal(SIGCONT);
  check_end(server, 0);
  check_end(one, 0);
  check_end(other, 0);
  check_completed(on, 10);
  CHECK(count_of(on, "joined") == 2);
}

TEST_CASE("a worker whose actor connection alone carries nothing comes back") {
  process_fixture on{recorded};
  const flags soon{"--liveness-timeout", "2"};
  auto server = on.listening_server(
    soon + flags{"--workers", "2", "--epochs", "25", "--transport", "stream"});
  proxy between{static_cast<uint16_t>(std::stoi(on.port()))};
  auto other = on.worker(soon);
  auto cut = on.start(
    "worker", on.of_worker() +
                flags{"--role", "worker", "--port", between.port()} + soon);
  cut.await("connected .* over stream");
  on.await(server, "both", [](const json& line) {
    return line["kind"] == "update" && line["workers"].size() == 2;
  });
  auto before = on.metrics().size();
  between.carry(false);
  on.await(server, "that it left", is_kind("left"), before);
  between.carry(true);
  auto back = on.await(server, "that it is back", is_kind("joined"), before);
  on.await(
    server, "both again",
    [](const json& line) {
      return line["kind"] == "update" && line["workers"].size() == 2;
    },
    back);
  check_end(server, 0);
  check_end(other, 0);
  check_end(cut, 0);
  check_completed(on, 25);
}

TEST_CASE("a path that takes in nothing for a moment loses nothing") {
  process_fixture on{recorded};
  auto server = on.listening_server(
    {"--workers", "2", "--epochs", "12", "--transport", "stream"});
  auto one = on.worker({"--overlap", "on"});
  auto other = on.worker();
  on.await(server, "training", is_kind("update"));
  auto port = std::stoi(on.port());
  REQUIRE(deafen(one.pid(), port, true));
  std::this_thread::sleep_for(1s);
  REQUIRE(deafen(one.pid(), port, false));
  check_end(server, 0);
  check_end(one, 0);
  check_end(other, 0);
  check_completed(on, 12);
  CHECK(count_of(on, "joined") == 2);
}
