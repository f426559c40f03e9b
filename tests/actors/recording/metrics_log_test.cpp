#include "actors/recording/metrics_log.hpp"
#include "config/text/failure.hpp"
#include "tests/support/members.hpp"
#include "tests/support/temporary_folder.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <sstream>

using namespace troupe;
using namespace troupe::recording;
using namespace troupe::test;
using testing::slurp;
using testing::spill;
using testing::temporary_folder;
using mode = metrics_log::mode;

namespace {

constexpr auto life = life_number{2};

const std::string expected_lines =
  R"lines({"kind":"started","step":0,"time":0.0,"run_id":"r1","network":"lenet","dataset":"digits","policy":"ssp(s=3)","workers":4,"shards":1,"seed":7}
{"kind":"joined","step":0,"time":0.0,"worker":1,"incarnation":2}
{"kind":"update","step":1,"time":0.5,"loss":2.25,"epoch":0.1,"lr":0.01,"samples":96,"gradients":2,"workers":[1,0],"staleness":[3,0]}
{"kind":"update","step":1,"time":0.5,"loss":2.25,"epoch":0.1,"lr":0.01,"samples":32,"gradients":1,"workers":[0],"staleness":[0],"metrics":{"f1":0.25,"x":null}}
{"kind":"evaluation","step":1,"time":0.75,"loss":1.5,"accuracy":0.875,"samples":360,"accuracy_top5":1.0,"metrics":{"accuracy":0.875,"loss":1.5,"accuracy_top5":1.0}}
{"kind":"evaluation","step":1,"time":0.75,"loss":null,"accuracy":null,"samples":9,"accuracy_top5":null,"metrics":{"f1":0.5,"x":null}}
{"kind":"dropped","step":1,"time":1.0,"worker":0,"staleness":5,"samples":64}
{"kind":"cancelled","step":1,"time":1.0,"worker":0}
{"kind":"refused","step":1,"time":1.0,"worker":1,"reason":"not finite"}
{"kind":"refused","step":1,"time":1.0,"worker":1,"reason":"large","norm":812.5,"median":0.5}
{"kind":"epoch","step":2,"time":2.0,"epoch":0,"slowness":[1.0,null,3.25]}
{"kind":"checkpoint","step":2,"time":2.0,"name":"step-00000002"}
{"kind":"warning","step":2,"time":2.0,"text":"disk nearly full"}
{"kind":"left","step":2,"time":3.0,"worker":1,"incarnation":2,"reason":"silent"}
{"kind":"resumed","step":2,"time":3.0,"incarnation":2,"lost_updates":4}
{"kind":"resumed","step":2,"time":3.0,"incarnation":2,"lost_updates":null}
{"kind":"stopping","step":2,"time":4.0,"reason":"SIGTERM"}
{"kind":"finished","step":2,"time":4.0,"status":"stopped"}
)lines";

} // namespace

TEST_CASE("each record is one line with its keys in order") {
  temporary_folder folder;
  auto path = folder / "metrics.jsonl";
  metrics_log log{path, mode::fresh};
  start_record start{0, 0, "r1", "lenet", "digits", "ssp(s=3)", 4, 1, 7};
  std::vector<applied_gradient> gradients{{w1, 3, 64}, {w0, 0, 32}};
  log.started(start);
  log.joined(0, 0, w1, life);
  log.update({1, 0.5, 2.25, 0.1, 0.01, gradients});
  const config::metrics more{{"f1", 0.25}, {"x", INFINITY}};
  log.update({1, 0.5, 2.25, 0.1, 0.01, std::span{gradients}.subspan(1), more});
  log.evaluation(
    {1, 0.75, 360, {{"accuracy", 0.875}, {"loss", 1.5}, {"accuracy_top5", 1}}});
  log.evaluation({1, 0.75, 9, {{"f1", 0.5}, {"x", std::nan("")}}});
  log.dropped(1, 1, w0, 5, 64);
  log.cancelled(1, 1, w0);
  log.refused(1, 1, w1, "not finite");
  log.refused(1, 1, w1, "large", cores::judged_norm{812.5, 0.5, true});
  log.epoch(2, 2, 0, {1.0, std::nullopt, 3.25});
  log.checkpoint(2, 2, "step-00000002");
  log.warning(2, 2, "disk nearly full");
  log.left(2, 3, w1, life, "silent");
  log.resumed(2, 3, life, 4);
  log.resumed(2, 3, life, std::nullopt);
  log.stopping(2, 4, "SIGTERM");
  log.finished(2, 4, "stopped");
  // Written already: nobody has closed the log.
  CHECK(slurp(path) == expected_lines);
}

TEST_CASE("numbers that are not finite are null and any text is one line") {
  temporary_folder folder;
  auto path = folder / "metrics.jsonl";
  metrics_log log{path, mode::fresh};
  log.update({1, 0, std::nan(""), INFINITY, 0.01, {}});
  log.warning(1, 0, "two\nlines, \"quotes\" and \xff");
  auto text = slurp(path);
  std::istringstream lines{text};
  std::string line;
  REQUIRE(std::getline(lines, line));
  auto update = nlohmann::json::parse(line);
  CHECK(update["loss"].is_null());
  CHECK(update["epoch"].is_null());
  REQUIRE(std::getline(lines, line));
  CHECK(nlohmann::json::parse(line)["text"].get<std::string>().starts_with(
    "two\nlines, \"quotes\" and "));
  CHECK(!std::getline(lines, line));
}

TEST_CASE("doubles keep all their digits") {
  temporary_folder folder;
  auto path = folder / "metrics.jsonl";
  metrics_log log{path, mode::fresh};
  log.evaluation({1, 0.1 + 0.2, 1, {{"loss", 1e-310}, {"accuracy", 1.0 / 3}}});
  auto line = nlohmann::json::parse(slurp(path));
  CHECK(line["time"].get<double>() == 0.1 + 0.2);
  CHECK(line["loss"].get<double>() == 1e-310);
  CHECK(line["accuracy"].get<double>() == 1.0 / 3);
}

TEST_CASE("a fresh log forgets and a resumed one goes on") {
  temporary_folder folder;
  auto path = folder / "metrics.jsonl";
  metrics_log{path, mode::fresh}.epoch(1, 1, 0);
  auto one = slurp(path);
  metrics_log{path, mode::resume}.epoch(2, 2, 1);
  CHECK(slurp(path).starts_with(one));
  CHECK(slurp(path).size() == 2 * one.size());
  metrics_log{path, mode::fresh}.epoch(1, 1, 0);
  CHECK(slurp(path) == one);
  metrics_log{folder / "new.jsonl", mode::resume}.epoch(1, 1, 0);
  CHECK(slurp(folder / "new.jsonl") == one);
}

TEST_CASE("a torn end is cut when a log is resumed") {
  struct row {
    std::string before;
    std::string after;
  };
  using namespace std::string_literals;
  auto lines = "{\"kind\":\"a\"}\n{\"kind\":\"b\"}\n"s;
  auto big = "{\"x\":\"" + std::string(10000, 'x') + "\"}\n";
  auto x = GENERATE_COPY(values<row>({
    {"", ""},
    {lines, lines},
    {lines + "{\"kind\":", lines},
    {lines + "{\"kind\":\"c\"}", lines}, // whole, but its end is missing
    {"{\"ki", ""},
    {lines + std::string(5000, '\0'), lines},
    {lines + "\0\0\0\n"s, lines},
    {lines + "{\"kind\"\n\n{\n", lines},
    {big, big},
    {big + big.substr(0, 9000), big},
    {"garbage\nmore garbage\n", ""},
  }));
  temporary_folder folder;
  auto path = folder / "metrics.jsonl";
  spill(path, x.before);
  metrics_log log{path, mode::resume};
  CHECK(slurp(path) == x.after);
  CHECK(log.cut() == x.before.size() - x.after.size());
  log.epoch(1, 1, 0);
  CHECK(slurp(path) ==
        x.after + "{\"kind\":\"epoch\",\"step\":1,\"time\":1.0,\"epoch\":0}\n");
}

TEST_CASE("a log that cannot be written says so in one line") {
  metrics_log log{"/dev/full", mode::fresh};
  CHECK_THROWS_AS(log.epoch(1, 1, 0), run_error);
  CHECK_THROWS_WITH(log.epoch(1, 1, 0),
                    "cannot write /dev/full: No space left on device");
  temporary_folder folder;
  CHECK_THROWS_WITH((metrics_log{folder / "no" / "x", mode::fresh}),
                    Catch::Matchers::EndsWith("No such file or directory"));
}

TEST_CASE("an update's line is what the JSON library would write") {
  auto x = GENERATE(0.0, -0.0, 1.0, 0.1, 1.0 / 3, 1e-5, 123456789.5, 1e15, 1e16,
                    2.5e-308, 1.7e308, -12.25, NAN, -INFINITY);
  auto gradients = GENERATE(
    std::vector<applied_gradient>{}, std::vector<applied_gradient>{{w1, 3, 64}},
    std::vector<applied_gradient>{{w0, 0, 1}, {w1, 1000000, 2}});
  temporary_folder folder;
  auto path = folder / "metrics.jsonl";
  metrics_log log{path, mode::fresh};
  log.update({UINT64_MAX, x, x, x, x, gradients});
  auto text = slurp(path);
  auto line = nlohmann::ordered_json::parse(text);
  CHECK(line.dump() + "\n" == text);
  CHECK(line["loss"].dump() == nlohmann::ordered_json(x).dump());
  CHECK(line["gradients"] == gradients.size());
  CHECK(line["workers"].size() == gradients.size());
}

TEST_CASE("lines that are gathered are there when there are enough, or asked") {
  temporary_folder folder;
  auto path = folder / "metrics.jsonl";
  auto lines = [&] {
    return std::ranges::count(slurp(path), '\n');
  };
  {
    metrics_log log{path, mode::fresh, 100};
    log.cancelled(1, 0.5, w0);
    CHECK(lines() == 0);
    log.flush();
    CHECK(lines() == 1);
    log.cancelled(2, 0.5, w0);
    log.cancelled(3, 0.5, w0);
    CHECK(lines() == 3);
    log.cancelled(4, 0.5, w0);
  }
  CHECK(lines() == 4);
}
