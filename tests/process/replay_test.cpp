// Runs with real threads and real processes leave event logs, and the event
// logs give the same weights again, bit by bit.

#include "actors/log_files/event_log_file.hpp"
#include "tests/process/process_fixture.hpp"

#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <functional>

using namespace troupe::testing;
using troupe::proto::LogEvent;

namespace {

namespace fs = std::filesystem;

/// Far above what a run takes by itself; other tests run meanwhile.
constexpr std::chrono::seconds whole_run{240};

child replay(process_fixture& on, const fs::path& event_log,
             const fs::path& into, const flags& more = {}) {
  return on.start(
    "replay",
    flags{"--replay", event_log.string(), "--train-dir", into.string()} + more);
}

std::string weights_in(const fs::path& run, const std::string& checkpoint) {
  auto out = slurp(run / "checkpoints" / checkpoint / "model.safetensors");
  REQUIRE(!out.empty());
  return out;
}

/// The part of a summary that depends on the training and not on the machine.
json essence_of(const json& summary) {
  json out;
  for (const auto& name :
       {"status", "policy", "workers", "steps", "epochs", "samples_applied",
        "samples_dropped", "gradients_applied", "gradients_dropped",
        "gradients_refused", "final_loss", "final_accuracy", "best_accuracy",
        "best_step", "staleness", "accepted_share", "weights_sha256",
        "state_sha256", "transport"})
    out[name] = summary.at(name);
  return out;
}

/// Replays a whole event log; its end must be that of the run.
void check_replay(process_fixture& on, const fs::path& event_log,
                  const fs::path& into, const json& summary,
                  const flags& more = {}) {
  auto again = replay(on, event_log, into, more);
  check_end(again, 0, whole_run);
  INFO(again.report());
  CHECK(again.said("replay       [0-9]+ events, all as in the event log"));
  CHECK(essence_of(read_summary(into)) == essence_of(summary));
}

std::vector<LogEvent> read_event_log(const fs::path& path) {
  troupe::recording::event_log_reader event_log{path};
  std::vector<LogEvent> out(1);
  *out[0].mutable_begin() = event_log.begin();
  for (LogEvent event; event_log.next(event);)
    out.push_back(event);
  return out;
}

/// An event log with changes, sealed as if it were genuine.
void write_event_log(const fs::path& path,
                     const std::vector<LogEvent>& events) {
  troupe::recording::event_log_file event_log{path};
  for (auto event : events)
    event_log.write(event);
}

size_t find_event(const std::vector<LogEvent>& events,
                  const std::function<bool(const LogEvent&)>& wanted) {
  auto found = std::find_if(events.begin(), events.end(), wanted);
  REQUIRE(found != events.end());
  return static_cast<size_t>(found - events.begin());
}

void train_and_replay(const flags& policy, const std::string& late) {
  process_fixture on;
  auto all =
    on.simulate(flags{"--tape", "--threads", "1", "--workers", "3",
                      "--max-steps", "60", "--batch-size", "16", "--eval-freq",
                      "20", "--checkpoint-freq", "25", "--keep", "9"} +
                policy);
  check_end(all, 0, whole_run);
  auto summary = on.summary();
  if (!late.empty()) {
    auto metrics = on.metrics();
    CHECK(std::any_of(metrics.begin(), metrics.end(), is_kind(late)));
  }
  auto event_log = on.run() / "tape-1.pb";
  check_replay(on, event_log, on.home() / "again", summary);

  // A replay that stops at a step leaves the state of that step.
  auto part = replay(on, event_log, on.home() / "part", {"--max-steps", "25"});
  check_end(part, 0, whole_run);
  INFO(part.report());
  CHECK(
    part.said("replay       stopped at event [0-9]+; all as in the event log"));
  auto same = weights_in(on.home() / "part", "step-00000025") ==
              weights_in(on.run(), "step-00000025");
  CHECK(same);
  CHECK(checkpoints_of(on.home() / "part") ==
        std::vector<std::string>{"step-00000025"});
}

} // namespace

TEST_CASE("sync: an event log gives the same weights again") {
  train_and_replay({"--policy", "sync"}, "");
}

TEST_CASE(
  "backup: an event log with late gradients gives the same weights again") {
  train_and_replay({"--policy", "backup"}, "dropped");
}

TEST_CASE(
  "backup: an event log with cancelled work gives the same weights again") {
  train_and_replay({"--policy", "backup", "--late", "cancel"}, "cancelled");
}

TEST_CASE("ssp: an event log gives the same weights again") {
  train_and_replay({"--policy", "ssp", "--staleness", "1"}, "");
}

TEST_CASE("async: an event log gives the same weights again") {
  train_and_replay({"--policy", "async"}, "");
}

TEST_CASE("processes, one of them killed: an event log gives the same weights "
          "again") {
  process_fixture on;
  auto server =
    on.listening_server({"--policy", "ssp", "--workers", "3", "--epochs", "12",
                         "--tape", "--threads", "1"});
  auto evaluator = on.evaluator();
  std::vector<child> workers;
  for (int i = 0; i < 3; ++i)
    workers.push_back(on.worker({"--threads", "1"}));
  auto begun = on.await(server, "training", [](const json& line) {
    return line["kind"] == "update" && line["step"] >= 20;
  });
  workers[1].kill();
  auto left = on.await(server, "that it left", is_kind("left"), begun);
  workers[1] = on.worker({"--threads", "1"});
  on.await(server, "that it is back", is_kind("joined"), left);
  check_end(server, 0, whole_run);
  for (auto& worker : workers)
    check_end(worker, 0);
  check_end(evaluator, 0);
  check_replay(on, on.run() / "tape-1.pb", on.home() / "again", on.summary());
}

TEST_CASE(
  "a killed server: both event logs give what it had and what came of it") {
  process_fixture on;
  flags cluster{"--policy", "async",  "--workers", "2", "--epochs",
                "20",       "--tape", "--threads", "1", "--checkpoint-freq",
                "40",       "--keep", "2"};
  auto server = on.listening_server(cluster);
  auto workers = std::vector<child>{};
  for (int i = 0; i < 2; ++i)
    workers.push_back(on.worker({"--threads", "1"}));
  on.await(server, "training", [](const json& line) {
    return line["kind"] == "update" && line["step"] >= 100;
  });
  server.kill();
  auto first = read_event_log(on.run() / "tape-1.pb");
  CHECK(!first.back().has_ended());
  server = on.listening_server(cluster + flags{"--resume", "auto"});
  check_end(server, 0, whole_run);
  for (auto& worker : workers)
    check_end(worker, 0);
  auto summary = on.summary();

  // The first life, up to the kill.
  auto cut = replay(on, on.run() / "tape-1.pb", on.home() / "first");
  check_end(cut, 0, whole_run);
  INFO(cut.report());
  CHECK(cut.said("replay       the event log ends after event " +
                 std::to_string(first.size())));
  uint64_t made = 0;
  for (const auto& event : first)
    for (const auto& update : event.decision().updates())
      made = std::max(made, update.makes());
  auto last = read_summary(on.home() / "first");
  CHECK(last["steps"] == made);
  CHECK(last["status"] == "stopped");
  auto kept = checkpoints_of(on.home() / "first");
  REQUIRE(kept.size() == 2); // As `keep` in the event log says.
  CHECK(std::stoull(kept.back().substr(5)) == made);

  // The second, from its checkpoint.
  auto begin = read_event_log(on.run() / "tape-2.pb").front().begin();
  CHECK(begin.life() == 2);
  CHECK(begin.start_version() >= 80);
  auto event_log = on.run() / "tape-2.pb";
  auto missing = replay(on, event_log, on.home() / "second");
  check_end(missing, 1);
  INFO(missing.err());
  CHECK(missing.err().find("life 2 of the server began from the checkpoint " +
                           begin.checkpoint() + ", which is not at") !=
        std::string::npos);
  CHECK(!fs::exists(on.home() / "second"));
  auto again = replay(on, on.run() / "tape-1.pb", on.home() / "start",
                      {"--max-steps", std::to_string(begin.start_version())});
  check_end(again, 0, whole_run);
  check_replay(on, event_log, on.home() / "second", summary,
               {"--resume", (on.home() / "start").string()});
}

TEST_CASE("an event log that was tampered with is noticed, and where") {
  process_fixture on;
  auto all =
    on.simulate({"--policy", "sync", "--workers", "3", "--max-steps", "6",
                 "--batch-size", "8", "--tape", "--threads", "1"});
  check_end(all, 0, whole_run);
  const auto events = read_event_log(on.run() / "tape-1.pb");
  auto complaint_of = [&](const std::vector<LogEvent>& changed) {
    auto event_log = on.home() / "changed.pb";
    fs::remove(event_log);
    write_event_log(event_log, changed);
    auto again = replay(on, event_log, on.home() / "again", {"--overwrite"});
    check_end(again, 1, whole_run);
    auto line = again.err();
    auto about = "trainer_node: " + event_log.string() + ": event ";
    INFO(line);
    REQUIRE(line.find(about) == 0);
    CHECK(std::count(line.begin(), line.end(), '\n') == 1);
    return line.substr(about.size());
  };
  auto is_step = [](uint64_t made) {
    return [made](const LogEvent& event) {
      return event.decision().updates_size() == 1 &&
             event.decision().updates(0).makes() == made;
    };
  };
  auto is_gradient = [](const LogEvent& event) {
    return event.has_arrived() && event.arrived().computed_on() == 3;
  };

  SECTION("the order of a sum") {
    auto changed = events;
    auto at = find_event(changed, is_step(4));
    changed[at]
      .mutable_decision()
      ->mutable_updates(0)
      ->mutable_gradients()
      ->SwapElements(0, 1);
    CHECK(
      complaint_of(changed) ==
      std::to_string(at + 1) +
        ": decision.updates[0].gradients[0].worker is 1 in the event log and 0 "
        "in the replay\n");
  }
  SECTION("the version that a gradient was computed on") {
    auto changed = events;
    auto at = find_event(changed, is_gradient);
    changed[at].mutable_arrived()->set_computed_on(2);
    CHECK(complaint_of(changed).find(
            std::to_string(at + 1) +
            ": a gradient computed on version 2, but worker ") == 0);
  }
  SECTION("a loss") {
    auto changed = events;
    auto at = find_event(changed, is_gradient);
    auto& loss = *changed[at].mutable_arrived();
    loss.set_loss(loss.loss() * 1.0000001);
    CHECK(complaint_of(changed).find(std::to_string(at + 1) +
                                     ": arrived.loss") == 0);
  }
  SECTION("an event that is missing") {
    auto changed = events;
    auto at = find_event(changed, is_gradient);
    changed.erase(changed.begin() + static_cast<ptrdiff_t>(at));
    // Another gradient makes the step, or none does: so no line can be
    // expected.
    complaint_of(changed);
  }
  SECTION("the weights at the end") {
    auto changed = events;
    auto at = find_event(
      changed, [](const LogEvent& event) { return event.has_ended(); });
    changed[at].mutable_ended()->set_weights_sha256("0");
    CHECK(complaint_of(changed).find(std::to_string(at + 1) +
                                     ": ended.weights_sha256 is ") == 0);
  }
  SECTION("the rest of the state at the end") {
    auto changed = events;
    auto at = find_event(
      changed, [](const LogEvent& event) { return event.has_ended(); });
    changed[at].mutable_ended()->set_state_sha256("0");
    CHECK(complaint_of(changed).find(std::to_string(at + 1) +
                                     ": ended.state_sha256 is ") == 0);
  }
}

TEST_CASE("an event log that does not tell of the state is replayed") {
  process_fixture on;
  auto all = on.simulate(
    {"--workers", "2", "--max-steps", "4", "--tape", "--threads", "1"});
  check_end(all, 0, whole_run);
  auto events = read_event_log(on.run() / "tape-1.pb");
  auto at =
    find_event(events, [](const LogEvent& event) { return event.has_ended(); });
  events[at].mutable_ended()->clear_state_sha256();
  write_event_log(on.home() / "older.pb", events);
  check_replay(on, on.home() / "older.pb", on.home() / "again", on.summary());
}

TEST_CASE("a replay decides by the rules of the event log's run") {
  process_fixture on;
  // Afterwards worker 0 is out of phase with the others.
  spill(on.home() / "faults.txt", "3 slow(worker=0,factor=2.5,for=0.5)\n");
  auto all =
    on.simulate({"--policy", "backup", "--workers", "3", "--max-steps", "20",
                 "--clock", "virtual", "--compute-time", "constant(1)",
                 "--faults", "faults.txt", "--tape", "--threads", "1"});
  check_end(all, 0, whole_run);
  auto events = read_event_log(on.run() / "tape-1.pb");
  check_replay(on, on.run() / "tape-1.pb", on.home() / "again", on.summary());

  events[0].mutable_begin()->clear_rules();
  write_event_log(on.home() / "older.pb", events);
  auto older = replay(on, on.home() / "older.pb", on.home() / "older");
  check_end(older, 1, whole_run);
  INFO(older.err());
  CHECK(older.err().find("older.pb: event ") != std::string::npos);

  events[0].mutable_begin()->set_rules(1000);
  write_event_log(on.home() / "newer.pb", events);
  auto newer = replay(on, on.home() / "newer.pb", on.home() / "newer");
  check_end(newer, 1);
  CHECK(newer.err().find("newer.pb: its run decided by rules that this release "
                         "does not have: replay it with trainer_node ") !=
        std::string::npos);
}

TEST_CASE("a replay is of the event log's run and no other") {
  process_fixture on;
  auto all = on.simulate({"--workers", "2", "--max-steps", "4", "--lr", "0.05",
                          "--tape", "--threads", "1"});
  check_end(all, 0, whole_run);
  auto event_log = (on.run() / "tape-1.pb").string();
  auto complaint = [&](const flags& more, int status) {
    auto again = on.start("replay", flags{"--replay", event_log, "--train-dir",
                                          (on.home() / "again").string()} +
                                      more);
    check_end(again, status);
    return again.err();
  };
  CHECK(complaint({"--lr", "0.1"}, 2) ==
        "trainer_node: --lr 0.1: the run in the event log had 0.05, and a "
        "replay is "
        "that run: leave it out\n");
  CHECK(
    complaint({"--max-steps", "5"}, 2) ==
    "trainer_node: --max-steps 5: the run in the event log ends at 4; a replay "
    "may only end earlier\n");
  CHECK(complaint({"--resume", "x"}, 2) ==
        "trainer_node: --resume x: " + event_log +
          " begins from no checkpoint; leave it out\n");
  CHECK(complaint({"--simulate"}, 2).find("--replay takes all settings") !=
        std::string::npos);
  CHECK(!fs::exists(on.home() / "again"));
  CHECK(
    complaint({"--lr", "0.05", "--checkpoint-freq", "1", "--tape"}, 0).empty());
  CHECK(checkpoints_of(on.home() / "again").size() == 3);
  // A replay's own event log is the run's again.
  check_replay(on, on.home() / "again" / "tape-1.pb", on.home() / "third",
               on.summary());
  auto none = on.start("replay", {"--replay", "no.pb"});
  check_end(none, 1);
  CHECK(none.err().find("trainer_node: cannot read no.pb") == 0);
}

TEST_CASE("an event log that cannot be written fails the run with one line") {
  process_fixture on;
  child_options how;
  how.largest_file = 60'000;
  auto all = on.start("full",
                      {"--simulate", "--clock", "virtual", "--gradients",
                       "none", "--workers", "50", "--max-steps", "1000",
                       "--train-dir", on.run().string(), "--tape"},
                      how);
  check_end(all, 1);
  INFO(all.report());
  auto line = all.err();
  CHECK(std::count(line.begin(), line.end(), '\n') == 1);
  // Of the two files either may be full first.
  CHECK(line.find("trainer_node: cannot write " + on.run().string()) == 0);
}
