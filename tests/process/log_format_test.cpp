// What the processes of a run print, with --log-format json.

#include "tests/process/launched.hpp"

#include <catch2/catch_test_macros.hpp>

#include <set>
#include <sstream>

using namespace troupe::testing;

namespace {

const flags as_json{"--log-format", "json"};

/// Throws unless each line is an object.
std::vector<json> read_lines(const std::string& text) {
  std::vector<json> out;
  std::istringstream from{text};
  for (std::string line; std::getline(from, line);)
    out.push_back(json::parse(line));
  return out;
}

bool says(const json& line, const std::string& begin) {
  return line["message"].get<std::string>().starts_with(begin);
}

json first_that_says(const std::vector<json>& all, const std::string& begin) {
  for (const auto& one : all)
    if (says(one, begin))
      return one;
  FAIL("no line begins with " << begin);
  return {};
}

/// Without the settings, which name the run directory.
std::string files_of(const std::filesystem::path& run) {
  std::string out;
  for (const auto& name : files_below(run))
    if (name == "metrics.jsonl" || name.starts_with("events."))
      out += name + "\n" + slurp(run / name);
  return out;
}

} // namespace

TEST_CASE("all that a launch prints is JSON, and says whose it is") {
  launched it{as_json + flags{"--log-dir", "logs"},
              {"/bin/sh", "-c",
               "echo a line of their own; echo '{\"loss\": 1}'; "
               "\"$TROUPE_TRAINER_NODE\" --role worker"},
              {},
              with_variables({{"TROUPE_TRAINING_EPOCHS", "1"}})};
  CHECK(it.process.wait() == 0);
  INFO(it.process.report());
  std::set<std::string> nodes;
  for (const auto& one : read_lines(it.process.out())) {
    nodes.insert(one["node"]);
    CHECK(one["pid"].get<int>() > 0);
    CHECK(one["host"].get<std::string>() != "");
    CHECK(one["time"].get<std::string>().size() == 27);
    if (one["role"] == "worker")
      CHECK(one["node"] ==
            "worker-" + std::to_string(one["rank"].get<uint32_t>()));
    if (says(one, "connected "))
      CHECK(one["life"] == 1);
    if (says(one, "joined "))
      CHECK(one["role"] == "ps");
  }
  CHECK(nodes == std::set<std::string>{"ps", "worker-0", "worker-1"});
  auto own =
    first_that_says(read_lines(slurp(it.on.home() / "logs/worker-1.log")),
                    "a line of their own");
  CHECK(own["rank"] == 1);
  CHECK(own["level"] == "info");
}

TEST_CASE("a launch still understands what its nodes say") {
  launched it{as_json, {}, {"--epochs", "4", "--lr", "-1"}};
  CHECK(it.process.wait() == 2);
  auto said = read_lines(it.process.err());
  INFO(it.process.report());
  REQUIRE(said.size() == 1);
  CHECK(said[0]["level"] == "error");
  CHECK(says(said[0], "trainer_node: --lr -1: "));
}

TEST_CASE("the lines of a virtual run are the same each time") {
  process_fixture on;
  std::vector<std::string> printed, written;
  const flags all{"--simulate",
                  "--clock",
                  "virtual",
                  "--max-steps",
                  "40",
                  "--eval-freq",
                  "20",
                  "--compute-time",
                  "gamma(mean=1,cv=0.5)",
                  "--train-dir",
                  "run",
                  "--overwrite"};
  for (const auto& form : {as_json, as_json, flags{}}) {
    auto run = on.start("run", all + form);
    check_end(run, 0);
    printed.push_back(run.out());
    written.push_back(files_of(on.run()));
  }
  CHECK(printed[0] == printed[1]);
  CHECK(written[0] == written[1]);
  CHECK(written[0] == written[2]);
  for (const auto& one : read_lines(printed[0])) {
    CHECK_FALSE(one.contains("host"));
    CHECK_FALSE(one.contains("pid"));
    CHECK(one["role"] == "simulate");
    CHECK(one["time"].get<std::string>().starts_with("1970-01-01T00:"));
  }
  auto score = first_that_says(read_lines(printed[0]), "evaluation   step 20");
  CHECK(score["time"] > "1970-01-01T00:00:01");
}

TEST_CASE("an error in the settings has the form that was asked for") {
  process_fixture on;
  auto run = on.start("run", as_json + flags{"--role", "worker", "--lr", "x"});
  check_end(run, 2);
  auto said = read_lines(run.err());
  REQUIRE(said.size() == 1);
  CHECK(said[0]["role"] == "worker");
  CHECK(says(said[0], "trainer_node: --lr x: "));
  auto form = on.start("run", {"--simulate", "--log-format", "xml"});
  check_end(form, 2);
  CHECK(form.err().starts_with("trainer_node: --log-format xml: "));
}
