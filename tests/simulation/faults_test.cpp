// Faults one by one: what the production actors make of them, in virtual time.

#include "config/text/failure.hpp"
#include "tests/simulation/virtual_test.hpp"

#include <catch2/catch_test_macros.hpp>

using namespace troupe;
using namespace troupe::test;

namespace {

using strings = std::vector<std::string>;

struct faulty_outcome {
  virtual_outcome left;
  simulation::fault_counts counts;
  std::vector<json> events; ///< Lines of metrics.jsonl.

  /// Those of a kind.
  std::vector<json> all(const std::string& kind) const {
    std::vector<json> result;
    for (const auto& line : events)
      if (line["kind"] == kind)
        result.push_back(line);
    return result;
  }
};

faulty_outcome run_with(const std::string& faults, const strings& more,
                        const std::string& gradients = "none") {
  testing::temporary_folder folder;
  testing::spill(folder / "faults.txt", faults);
  auto run = (folder / "run").string();
  strings all{"--simulate",
              "--clock",
              "virtual",
              "--train-dir",
              run,
              "--gradients",
              gradients,
              "--batch-size",
              "8",
              "--faults",
              (folder / "faults.txt").string(),
              "--liveness-timeout",
              "4",
              "--join-timeout",
              "5"};
  all.insert(all.end(), more.begin(), more.end());
  auto call = config::parse_command_line(all, config::environment{});
  faulty_outcome out;
  app::virtual_run_options options;
  options.silent = true;
  options.counts = [&](const auto& x) {
    out.counts = x;
  };
  auto end = app::run_in_virtual_time(call.config, options);
  if (end.status != 0)
    throw std::runtime_error(end.line);
  out.left = {json::parse(text_of_file(folder / "run/summary.json")),
              text_of_file(folder / "run/metrics.jsonl")};
  std::istringstream lines{out.left.metrics};
  for (std::string line; std::getline(lines, line);)
    out.events.push_back(json::parse(line));
  return out;
}

} // namespace

TEST_CASE("a worker that crashes leaves and comes back as a new life") {
  auto found = run_with("5.5 crash(worker=1,restart=4)",
                        {"--workers", "3", "--max-steps", "40"});
  auto left = found.all("left");
  REQUIRE(left.size() == 1);
  CHECK(left[0]["worker"] == 1);
  CHECK(left[0]["time"] == 5.5);
  CHECK(left[0]["reason"] == "connection lost");
  auto joined = found.all("joined");
  REQUIRE(joined.size() == 4);
  CHECK(joined[3]["worker"] == 1);
  CHECK(joined[3]["incarnation"] == 2);
  CHECK(joined[3]["time"] == 9.5);
}

TEST_CASE("a worker that crashes for good is not waited for") {
  auto found =
    run_with("5.5 crash(worker=1)", {"--workers", "3", "--max-steps", "40"});
  CHECK(found.left.summary["steps"] == 40);
  CHECK(found.all("joined").size() == 3);
}

TEST_CASE("a server that crashes goes on from its newest checkpoint") {
  auto found =
    run_with("12.5 crash-server(restart=3)",
             {"--workers", "2", "--max-steps", "30", "--checkpoint-freq", "5"});
  auto resumed = found.all("resumed");
  REQUIRE(resumed.size() == 1);
  CHECK(resumed[0]["step"] == 10);
  CHECK(resumed[0]["incarnation"] == 2);
  CHECK(resumed[0]["lost_updates"] == 2);
  CHECK(found.counts.rolled_back == 1);
  CHECK(found.left.summary["steps"] == 30);
  CHECK(found.left.summary["gradients_applied"] == 60);
}

TEST_CASE("workers wait for the life after one that failed") {
  auto found =
    run_with("12.5 fail-server(restart=3)\n14 fail-server(restart=1)",
             {"--workers", "2", "--max-steps", "30", "--checkpoint-freq", "5"});
  auto resumed = found.all("resumed");
  REQUIRE(resumed.size() == 1); // A server that is down cannot fail again.
  CHECK(resumed[0]["step"] == 10);
  CHECK(resumed[0]["incarnation"] == 2);
  CHECK(resumed[0]["lost_updates"] == 2);
  auto failed = found.all("finished");
  REQUIRE(failed.size() == 2);
  CHECK(failed[0]["status"] == "failed");
  CHECK(failed[1]["status"] == "completed");
  CHECK(found.left.summary["status"] == "completed");
  CHECK(found.left.summary["gradients_applied"] == 60);
}

TEST_CASE("a server that crashes before its first checkpoint begins anew") {
  auto found =
    run_with("3.5 crash-server(restart=1)", {"--workers", "2", "--max-steps",
                                             "10", "--checkpoint-freq", "100"});
  CHECK(found.all("resumed").empty());
  CHECK(found.left.summary["steps"] == 10);
  CHECK(found.counts.rolled_back == 1);
}

TEST_CASE("a short cut only delays, a long one ends the connection") {
  auto brief = run_with("5.5 cut(worker=0,for=3)",
                        {"--workers", "2", "--max-steps", "30"});
  CHECK(brief.all("left").empty());
  CHECK(brief.left.seconds() > 32);
  auto lasting = run_with("5.5 cut(worker=0,for=10)",
                          {"--workers", "2", "--max-steps", "30"});
  auto left = lasting.all("left");
  REQUIRE(left.size() == 1);
  CHECK(left[0]["time"] > 9.5);
  CHECK(left[0]["time"] < 11.5);
  auto joined = lasting.all("joined");
  REQUIRE(joined.size() == 3);
  CHECK(joined[2]["time"] > 15.5);
  CHECK(joined[2]["time"] < 21);
}

TEST_CASE("a cut in one direction ends the connection, too") {
  for (std::string cut : {"cut-up", "cut-down"}) {
    INFO(cut);
    auto brief = run_with("5.5 " + cut + "(worker=0,for=3)",
                          {"--workers", "2", "--max-steps", "30"});
    CHECK(brief.all("left").empty());
    CHECK(brief.left.seconds() > 32);
    auto lasting = run_with("5.5 " + cut + "(worker=0,for=10)",
                            {"--workers", "2", "--max-steps", "30"});
    auto left = lasting.all("left");
    REQUIRE(left.size() == 1);
    CHECK(left[0]["time"] > 9);
    CHECK(left[0]["time"] < 11.5);
    CHECK(lasting.all("joined").size() == 3);
  }
}

TEST_CASE("a run that stood still as a whole goes on with its whole cluster") {
  auto found = run_with("5.5 pause(for=100)\n110 pause(for=3)",
                        {"--workers", "3", "--max-steps", "40"});
  CHECK(found.all("left").empty());
  CHECK(found.all("joined").size() == 3);
  CHECK(found.left.summary["gradients_applied"] == 120);
}

TEST_CASE("a worker that crashes in the moment of its return comes back") {
  // The events that fall into the pause happen as it ends.
  auto found = run_with("5.5 crash(worker=2,restart=0.6)\n"
                        "5.6 pause(for=9)\n"
                        "8 crash(worker=2,restart=1)",
                        {"--workers", "3", "--max-steps", "40"});
  auto joined = found.all("joined");
  REQUIRE(!joined.empty());
  CHECK(joined.back()["worker"] == 2);
  CHECK(joined.back()["time"].get<double>() > 15);
  CHECK(found.left.summary["steps"] == 40);
}

TEST_CASE("a recorder that stalls holds the run up, and loses nothing") {
  auto found =
    run_with("5.5 stall-recorder(for=20)",
             {"--workers", "3", "--max-steps", "120", "--policy", "async"});
  uint64_t step = 0;
  uint64_t meanwhile = 0;
  for (const auto& line : found.all("update")) {
    CHECK(line["step"] == ++step);
    auto time = line["time"].get<double>();
    meanwhile += time > 5.5 && time < 25.5;
  }
  CHECK(step == 120);
  // There are as many updates as may be unwritten, and not the sixty that a run
  // without the fault makes meanwhile.
  CHECK(meanwhile >= 10);
  CHECK(meanwhile <= 28);
}

TEST_CASE("pings go over the link: a silent worker is noticed") {
  // Messages take 6 s, so that pings are answered too late.
  auto found = run_with("5.5 delay(worker=0,by=6,for=5)",
                        {"--workers", "2", "--max-steps", "40"});
  auto left = found.all("left");
  REQUIRE(left.size() == 1);
  CHECK(left[0]["reason"] == "silent");
  // The worker's gradient arrives when the worker is no member any more.
  CHECK(found.counts.stale >= 1);
  CHECK(found.all("joined").size() == 3);
}

TEST_CASE("a worker that stops in a round of local steps is noticed by its "
          "last step") {
  auto found = run_with("25.5 slow(worker=0,factor=20,for=1)",
                        {"--workers", "2", "--max-steps", "10", "--policy",
                         "async", "--local-steps", "8", "--hang-timeout", "3"});
  auto left = found.all("left");
  REQUIRE(left.size() == 1); // Though each round takes 8 s.
  CHECK(left[0]["worker"] == 0);
  std::string reason = left[0]["reason"];
  CHECK(reason.starts_with("hangs: no local step for 3"));
  CHECK(left[0]["time"] > 29);
  CHECK(left[0]["time"] < 30);
}

TEST_CASE("a slow machine holds its step up") {
  auto found = run_with("5.5 slow(worker=0,factor=5,for=1)",
                        {"--workers", "2", "--max-steps", "20"});
  CHECK(found.left.seconds() == 24);
}

TEST_CASE("a gradient that arrives twice counts once") {
  for (auto after : {"0", "0.5", "2.5"}) {
    auto found = run_with(
      "5.5 duplicate(worker=0,for=10,after=" + std::string{after} + ")",
      {"--workers", "2", "--max-steps", "30"});
    CHECK(found.counts.duplicates == 10);
    CHECK(found.left.summary["gradients_applied"] == 60);
    CHECK(found.left.summary["gradients_refused"] == 0);
  }
}

TEST_CASE("gradients under way when the server dies are refused by the next") {
  auto found = run_with("5.5 delay(worker=0,by=3,for=5)\n"
                        "8.5 crash-server(restart=0.5)",
                        {"--workers", "2", "--max-steps", "30", "--policy",
                         "async", "--checkpoint-freq", "5"});
  CHECK(found.counts.stale >= 1);
}

TEST_CASE("runs with faults are the same twice, and learn") {
  strings arguments{"--workers",         "3",   "--epochs",    "2",
                    "--policy",          "ssp", "--eval-freq", "20",
                    "--checkpoint-freq", "10"};
  auto faults = "3 crash(worker=1,restart=2)\n"
                "8 crash-server(restart=2)\n"
                "15 cut(worker=2,for=8)\n"
                "20 duplicate(worker=0,after=1,for=10)\n";
  auto first = run_with(faults, arguments, "real");
  auto second = run_with(faults, arguments, "real");
  CHECK(first.left.metrics == second.left.metrics);
  CHECK(first.left.sha256() == second.left.sha256());
  CHECK(first.left.summary["final_accuracy"] > 0.5);
  CHECK(first.counts.rolled_back == 1);
}

TEST_CASE("a cluster that is left without anybody breaks a promise") {
  try {
    run_with("5.5 crash(worker=0)\n6.5 crash(worker=1)",
             {"--workers", "2", "--max-steps", "30"});
    FAIL("it goes on");
  } catch (const std::runtime_error& why) {
    std::string line = why.what();
    CHECK(line.starts_with("a promise is broken at "));
    CHECK(line.find("s: progress: no update for") != line.npos);
    CHECK(line.find("trainer_node --simulate") != line.npos);
  }
}

TEST_CASE("faults need the virtual clock") {
  strings all{"--simulate", "--faults", "random(1)"};
  CHECK_THROWS_AS(config::parse_command_line(all, config::environment{}),
                  usage_error);
}
