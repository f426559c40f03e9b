// The power fails while trainer_node trains: its system calls are recorded, and
// runs are resumed from what these may have left on the disk.

#include "config/text/failure.hpp"
#include "models/storage/checkpoint.hpp"
#include "tests/power/disk_image.hpp"
#include "tests/process/process_fixture.hpp"

#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <random>
#include <set>

using namespace troupe;
using namespace troupe::testing;

namespace fs = std::filesystem;

namespace {

/// A network of some kilobytes.
const flags small{"--network",
                  "script:net.pt",
                  "--allow-scripts",
                  "--dataset",
                  "synthetic(shape=1x8x8,classes=4,samples=400)",
                  "--workers",
                  "2",
                  "--threads",
                  "1",
                  "--batch-size",
                  "20",
                  "--checkpoint-freq",
                  "5",
                  "--keep",
                  "2",
                  "--eval-freq",
                  "10",
                  "--max-steps",
                  "40",
                  "--train-dir",
                  "runs/one"};

/// The step of the newest checkpoint that the metrics tell of, 0 before.
void note_acknowledged(const disk_event& event, uint64_t& step) {
  const std::string sign = R"("kind":"checkpoint","step":)";
  if (event.what != disk_call::write)
    return;
  for (auto at = event.text.find(sign); at != std::string::npos;
       at = event.text.find(sign, at + 1))
    step = std::stoull(event.text.substr(at + sign.size()));
}

/// The steps of the checkpoints that were given their final name.
std::set<uint64_t> finished_steps(const std::vector<disk_event>& events) {
  const std::string sign = "checkpoints/step-";
  std::set<uint64_t> out;
  for (const auto& event : events)
    if (auto at = event.other.find(sign);
        event.what == disk_call::rename && at != std::string::npos)
      out.insert(std::stoull(event.other.substr(at + sign.size())));
  return out;
}

uint64_t newest_step(const fs::path& run) {
  auto dir = run / "checkpoints";
  for (const auto& entry : models::list_checkpoints(dir))
    models::read_checkpoint(entry.path); // None is damaged.
  auto found = models::newest_valid(dir, {});
  return found ? found->manifest.step() : 0;
}

} // namespace

TEST_CASE("a run that lost power goes on from the last checkpoint that it "
          "told of") {
  process_fixture on;
  auto disk = on.home() / "disk";
  auto trace = on.home() / "trace";
  auto script = fs::path{TROUPE_FIXTURES} / "0.1.0/killed/net.pt";
  fs::create_directory(disk);
  fs::copy(script, disk);
  child_options watched;
  watched.folder = disk;
  watched.environment = {{"LD_PRELOAD", TROUPE_DISK_RECORDER},
                         {disk_root_variable, disk.string()},
                         {disk_trace_variable, trace.string()}};
  auto cluster = on.start("recorded", flags{"--simulate"} + small, watched);
  check_end(cluster, 0);
  INFO(cluster.report());
  auto events = read_disk_trace(trace);
  // The script was there before, and is only read.
  std::erase_if(events,
                [](const disk_event& event) { return event.path == "net.pt"; });
  disk_image image{events};
  // A writer that is slower than the training leaves checkpoints out, but
  // neither the first nor the last. Of each the trace has all calls: three
  // files that are written and synced, and the folders around them.
  auto finished = finished_steps(events);
  REQUIRE(finished.contains(5));
  REQUIRE(finished.contains(40));
  auto syncs = std::ranges::count(events, disk_call::sync, &disk_event::what);
  REQUIRE(static_cast<size_t>(syncs) >= 5 * finished.size());

  std::mt19937_64 random{11};
  auto after = on.home() / "after";
  uint64_t acknowledged = 0;
  for (size_t moment = 1; moment <= image.moments(); ++moment) {
    const auto& event = events[moment - 1];
    note_acknowledged(event, acknowledged);
    // Of files that are only added to there is nothing to see.
    if (event.what == disk_call::write && event.text.size() < 1000 &&
        moment < image.moments())
      continue;
    for (auto rest : {disk_image::fate::none, disk_image::fate::some}) {
      INFO("after event " << moment);
      image.write(after, moment, rest, random);
      REQUIRE(newest_step(after / "runs/one") >= acknowledged);
    }
  }
  CHECK(acknowledged == 40);

  for (int i = 0; i < 4; ++i) {
    auto moment = image.moments() * static_cast<size_t>(2 * i + 1) / 8;
    INFO("life " << i << " after event " << moment);
    image.write(after, moment, disk_image::fate::some, random);
    fs::copy(script, after);
    auto from = newest_step(after / "runs/one");
    child_options there;
    there.folder = after;
    auto again =
      on.start("again", flags{"--simulate", "--resume", "auto"} + small, there);
    check_end(again, 0);
    INFO(again.report());
    CHECK(again.said("resumed +from step " + std::to_string(from)) ==
          (from > 0));
    auto summary = read_summary(after / "runs/one");
    CHECK(summary["status"] == "completed");
    CHECK(summary["steps"] == 40);
    CHECK(newest_step(after / "runs/one") == 40);
  }
}
