// Nodes of which the date jumps while they train.

#include "tests/process/process_fixture.hpp"

#include <catch2/catch_test_macros.hpp>

#include <csignal>

using namespace troupe::testing;

namespace {

/// For a node whose date jumps by so many seconds, some seconds after its
/// start.
child_options with_jump(long by) {
  child_options out;
  out.environment = {{"LD_PRELOAD", TROUPE_WRONG_CLOCK},
                     {"WRONG_CLOCK", std::to_string(by)},
                     {"WRONG_CLOCK_AFTER", "3"}};
  return out;
}

} // namespace

TEST_CASE("dates that jump by an hour are lines, and nobody is dropped") {
  process_fixture on{recorded};
  flags all{"--port", on.port(), "--threads", "1"};
  auto server =
    on.start("ps",
             flags{"--role", "ps", "--train-dir", on.run().string(),
                   "--workers", "2", "--epochs", "100000", "--policy", "sync"} +
               all + on.of_writer(),
             with_jump(3600));
  server.await("listening ");
  flags is_worker{"--role", "worker"};
  auto ahead = on.start("worker", is_worker + all, with_jump(3600));
  auto back = on.start("worker", is_worker + all, with_jump(-3600));
  server.await("date has jumped 3600 s ahead");
  ahead.await("date has jumped 3600 s ahead");
  back.await("date has jumped 3600 s back");
  on.await(server, "further steps", is_kind("update"), on.metrics().size());
  server.signal(SIGTERM);
  check_end(server, 75);
  check_end(ahead, 0);
  check_end(back, 0);
  for (const auto& line : on.metrics())
    CHECK(line["kind"] != "left");
  check_replayed(on);
}
