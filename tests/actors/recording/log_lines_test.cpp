#include "actors/recording/log_lines.hpp"

#include <catch2/catch_test_macros.hpp>
#include <nlohmann/json.hpp>
#include <unistd.h>

using namespace troupe::recording;
using nlohmann::json;

namespace {

log_origin worker() {
  return {"worker-1", "worker", 1, 2, "host", 4711};
}

} // namespace

TEST_CASE("plain lines are what was said") {
  log_lines lines;
  CHECK_FALSE(lines.is_json());
  CHECK(lines.make("joined       worker 1") == "joined       worker 1\n");
  lines.seated(3, 1);
  CHECK(lines.make("") == "\n");
}

TEST_CASE("a JSON line says who said it, and when") {
  CHECK(json_line(worker(), 1'700'000'000.25, "path         shm") ==
        R"({"level":"info","time":"2023-11-14T22:13:20.250000Z",)"
        R"("node":"worker-1","role":"worker","rank":1,"life":2,)"
        R"("host":"host","pid":4711,"message":"path         shm"})");
}

TEST_CASE("under the virtual clock a line depends on no process") {
  log_origin who{"simulate", "simulate"};
  CHECK(json_line(who, 12.5, "checkpoint   step-1") ==
        R"({"level":"info","time":"1970-01-01T00:00:12.500000Z",)"
        R"("node":"simulate","role":"simulate","rank":null,"life":null,)"
        R"("message":"checkpoint   step-1"})");
}

TEST_CASE("any text becomes one line of JSON") {
  for (std::string text : {"a \"quoted\"\tone", "two\nlines", "not UTF-8: \xff",
                           "\x1b[31mred", ""}) {
    auto line = json_line(worker(), 0, text);
    CHECK(line.find('\n') == std::string::npos);
    auto read = json::parse(line);
    if (text.find('\xff') == std::string::npos)
      CHECK(read["message"] == text);
    CHECK(line_in(line) == read["message"].get<std::string>());
  }
}

TEST_CASE("only lines of nodes are taken for such") {
  CHECK(line_in("") == std::nullopt);
  CHECK(line_in("joined       worker 1") == std::nullopt);
  CHECK(line_in(R"({"level":"info","message":"cut o)") == std::nullopt);
  CHECK(line_in(R"({"level":"info"})") == std::nullopt);
  CHECK(line_in(R"({"level":"info","message":7})") == std::nullopt);
  CHECK(line_in(R"({"loss":0.5})") == std::nullopt);
}

TEST_CASE("the level follows from how a line begins") {
  CHECK(level_of("warning      no locks") == "warning");
  CHECK(level_of("trainer_node: no such file") == "error");
  CHECK(level_of("failed       12 steps; summary.json") == "error");
  CHECK(level_of("ended with status 137: is started again") == "error");
  CHECK(level_of("completed    12 steps") == "info");
  CHECK(level_of("ended        the run is over") == "info");
}

TEST_CASE("a node that gets its place says so from then on") {
  log_lines lines;
  lines.use_json({"worker", "worker", {}, {}, "host", 7}, [] { return 0.0; });
  CHECK(json::parse(lines.make("a"))["rank"] == nullptr);
  lines.seated(3, 2);
  auto line = json::parse(lines.make("a"));
  CHECK(line["node"] == "worker-3");
  CHECK(line["rank"] == 3);
  CHECK(line["life"] == 2);
  lines.seated({}, 3);
  line = json::parse(lines.make("a"));
  CHECK(line["rank"] == 3);
  CHECK(line["life"] == 3);
}

TEST_CASE("a process is known by its role, its rank and its host") {
  auto one = origin_of_process("ps", 0, false);
  CHECK(one.node == "ps");
  CHECK(one.rank == 0);
  CHECK(one.pid == getpid());
  CHECK_FALSE(one.host.empty());
  CHECK(origin_of_process("ps", 2).node == "ps-2");
  CHECK(origin_of_process("evaluator", {}).node == "evaluator");
}

TEST_CASE("the last lines are known, in whatever form they were") {
  log_lines lines;
  for (int i = 0; i < 30; ++i)
    lines.make(std::to_string(i));
  lines.use_json(worker());
  lines.make(std::string(10000, 'x'));
  auto last = lines.last();
  REQUIRE(last.size() == 20);
  CHECK(last.front() == "11");
  CHECK(last.back() == std::string(500, 'x'));
}
