// Nodes that find their lead by a file in a folder that all of them see.

#include "tests/process/process_fixture.hpp"

#include <catch2/catch_test_macros.hpp>

#include <regex>

using namespace troupe::testing;
namespace fs = std::filesystem;

namespace {

/// A run whose nodes meet by file, under a name of its own.
struct meeting {
  process_fixture& on;
  std::string id;

  fs::path folder() const { return on.home() / "meet"; }

  flags how() const {
    return {"--rdzv-backend", "file", "--rdzv-endpoint", folder().string(),
            "--rdzv-id",      id,     "--threads",       "1"};
  }

  child node(const std::string& role, const flags& more = {}) const {
    return on.start(role, flags{"--role", role} + how() + more);
  }

  child server(const flags& more) const {
    return node("ps", flags{"--train-dir", (on.home() / id).string()} + more);
  }

  /// What the file says about the lead.
  std::string lead() const { return slurp(folder() / id); }
};

bool is_match(const std::string& text, const std::string& pattern) {
  return std::regex_search(text, std::regex{pattern});
}

} // namespace

TEST_CASE("nodes find their own of two runs in one folder, and the file goes "
          "with the run") {
  process_fixture on;
  meeting day{on, "day 1"};
  meeting night{on, "night"};
  const flags one{"--workers", "1", "--epochs", "1"};
  auto early = day.node("worker"); // It waits for the file.
  early.await("looking for  the lead in .*/meet/day 1");
  auto by_night = night.server(one);
  by_night.await("listening ");
  auto by_day = day.server(one + flags{"--lr", "0.02"});
  auto late = night.node("worker");
  auto scores = day.node("evaluator");
  for (auto* each : {&by_day, &early, &scores, &by_night, &late})
    check_end(*each, 0);
  CHECK(early.said("run day 1"));
  CHECK(late.said("run night"));
  CHECK(files_below(day.folder()).empty());
}

TEST_CASE("workers, an evaluator and a shard find a lead that is started again "
          "elsewhere") {
  process_fixture on{recorded};
  meeting it{on, "run"}; // The folder that the fixture reads.
  auto more = on.of_writer() +
              flags{"--workers",         "2",  "--epochs", "12", "--lr", "0.02",
                    "--checkpoint-freq", "10", "--shards", "2"};
  auto first = it.server(more + flags{"--rank", "0"});
  first.await("listening ");
  auto shard = it.node(
    "ps", flags{"--rank", "1", "--shards", "2", "--listen", "127.0.0.1:0"});
  auto one = it.node("worker", {"--shards", "2"});
  auto two = it.node("worker", {"--shards", "2"});
  auto scores = it.node("evaluator", {"--shards", "2"});
  on.await(first, "a checkpoint", is_kind("checkpoint"));
  CHECK(is_match(it.lead(), "\n127\\.0\\.0\\.1:[0-9]+\n"
                            "life 1, host .*, process " +
                              std::to_string(first.pid()) + "\n"));
  first.kill();
  auto second =
    it.server(more + flags{"--rank", "0", "--resume", "auto", "--listen",
                           "127.0.0.2:0", "--advertise", "127.0.0.2"});
  on.await(second, "the next life", is_kind("resumed"));
  second.await("listening ");
  CHECK(is_match(it.lead(), "\n127\\.0\\.0\\.2:[0-9]+\n"));
  for (auto* each : {&second, &shard, &one, &two, &scores})
    check_end(*each, 0);
  CHECK(check_completed(on, 12).resumes == 1);
}

TEST_CASE("an id that is in use is refused, with who has it") {
  process_fixture on;
  meeting it{on, "run"};
  auto first = it.server({"--workers", "1", "--epochs", "1"});
  first.await("listening ");
  auto second =
    on.start("ps", flags{"--role", "ps", "--train-dir", "other"} + it.how());
  check_end(second, 1);
  INFO(second.report());
  CHECK(is_match(second.err(),
                 "--rdzv-endpoint .*/meet --rdzv-id run: the lead of another "
                 "run has this place \\(127\\.0\\.0\\.1:[0-9]+"));
  auto worker = it.node("worker");
  check_end(worker, 0);
  check_end(first, 0);
}

TEST_CASE("a node says that no lead is there, and a file of something else is "
          "left alone") {
  process_fixture on;
  meeting it{on, "run"};
  auto alone = it.node("worker", {"--connect-timeout", "0.2"});
  check_end(alone, 1);
  CHECK(alone.err().find("no lead has written where it is within 0.2 s") !=
        std::string::npos);
  fs::create_directories(it.folder());
  spill(it.folder() / "run", "my notes\n");
  auto server = it.server({});
  check_end(server, 2);
  CHECK(server.err().find("as a file of something else") != std::string::npos);
  CHECK(it.lead() == "my notes\n");
}
