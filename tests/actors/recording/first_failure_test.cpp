#include "actors/recording/first_failure.hpp"
#include "tests/support/temporary_folder.hpp"

#include <catch2/catch_test_macros.hpp>

#include <fstream>

using namespace troupe::recording;
using troupe::testing::temporary_folder;

namespace {

failed_process lost_worker(uint32_t rank, double time) {
  return {"worker", rank, "node-a", 4711, time, "connection lost", {}};
}

failed_process ended_process(uint32_t rank, double time) {
  return {"worker",  rank, "node-a", 99, time, "was killed by SIGKILL",
          {"a line"}};
}

} // namespace

TEST_CASE("a worker that leaves in order has not failed") {
  CHECK_FALSE(is_failure(worker_ended));
  CHECK_FALSE(is_failure(worker_pauses));
  CHECK_FALSE(is_failure(worker_changes_path));
  for (const auto* reason : {"connection lost", "silent", "it failed: x",
                             "hangs: no gradient for 7 s", ""})
    CHECK(is_failure(reason));
}

TEST_CASE("a reason and its lines travel as one text") {
  departure_reason reason{"it failed: boom", {"Traceback", "  File x", "boom"}};
  auto read = read_reason(to_text(reason));
  CHECK(read.what == reason.what);
  CHECK(read.lines == reason.lines);
  CHECK(read_reason("silent").lines.empty());
  CHECK(read_reason("").what.empty());
}

TEST_CASE("what another node says is bounded, and has no control characters") {
  std::string text = "it \x1b[31mfailed\r";
  for (int i = 0; i < 1000; ++i)
    text += "\n" + std::to_string(i) + std::string(10000, 'x');
  auto read = read_reason(text);
  CHECK(read.what == "it  [31mfailed ");
  REQUIRE(read.lines.size() == 60);
  CHECK(read.lines.back().starts_with("999x"));
  CHECK(read.lines.back().size() == 500);
}

TEST_CASE("failures can be read again") {
  temporary_folder folder;
  auto path = folder / "failures";
  failed_process evaluator{"evaluator"};
  evaluator.what = "ended with status 3";
  auto all = std::vector{ended_process(1, 12.5), evaluator};
  std::ofstream{path} << to_json(all[0]) << "\n"
                      << to_json(all[1]) << "\n"
                      << R"({"role":"wor)";
  CHECK(read_failures(path) == all);
  CHECK(read_failures(folder / "none").empty());
}

TEST_CASE("the server's failure gets what the launch knows of its process") {
  CHECK_FALSE(first_failure({}, {}));
  CHECK(first_failure(lost_worker(1, 12), {}) == lost_worker(1, 12));
  auto found = *first_failure(lost_worker(1, 12), {ended_process(1, 11.9)});
  CHECK(found.what == "connection lost; its process was killed by SIGKILL");
  CHECK(found.pid == 99);
  CHECK(found.time == 12);
  CHECK(found.lines == std::vector<std::string>{"a line"});
}

TEST_CASE("the stack that a worker has sent is not replaced") {
  auto seen = lost_worker(1, 12);
  seen.lines = {"the stack"};
  CHECK(first_failure(seen, {ended_process(1, 12.5)})->lines == seen.lines);
}

TEST_CASE(
  "another process, or a later end of the same one, is another failure") {
  CHECK(first_failure(lost_worker(1, 12), {ended_process(0, 12.2)}) ==
        lost_worker(1, 12));
  CHECK(first_failure(lost_worker(1, 12), {ended_process(1, 300)}) ==
        lost_worker(1, 12));
}

TEST_CASE("a process that never joined may be the first") {
  CHECK(first_failure({}, {ended_process(0, 3)}) == ended_process(0, 3));
  CHECK(first_failure(lost_worker(1, 12),
                      {ended_process(0, 3), ended_process(1, 12)}) ==
        ended_process(0, 3));
}
