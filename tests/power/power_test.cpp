// Checkpoints and best weights when the power fails: after every single call
// to the system, with any part of what was not synced lost.

#include "config/text/failure.hpp"
#include "models/storage/best_weights.hpp"
#include "models/storage/checkpoint.hpp"
#include "tests/models/checkpoint_samples.hpp"
#include "tests/power/disk_image.hpp"
#include "tests/support/metrics.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tests/support/wished.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <algorithm>
#include <set>
#include <sstream>

using namespace troupe;
using namespace troupe::models;
using namespace troupe::testing;

namespace fs = std::filesystem;

namespace {

using fate = disk_image::fate;

/// Chances that each moment gets to lose something else.
const auto times =
  static_cast<int>(wished("TROUPE_POWER_TIMES", TROUPE_POWER_TIMES));

/// Where a test may make and remove thousands of files.
fs::path fast_folder() {
  return fs::is_directory("/dev/shm") ? "/dev/shm" : fs::temp_directory_path();
}

/// What one life of a server does to its run directory. Each checkpoint, and
/// each of the best weights, has a number of its own, which is in its content;
/// the trace has marks of when each was begun and when its writer was told
/// that it is durable.
class life {
public:
  explicit life(fs::path run) : run_(std::move(run)) {
    // nop
  }

  fs::path checkpoints() const { return run_ / "checkpoints"; }

  /// Begins as a server does, and goes on from the newest checkpoint. Returns
  /// its step.
  uint64_t begin() {
    fs::create_directories(run_);
    remove_leftovers(checkpoints());
    auto found = newest_valid(checkpoints(), {});
    if (found)
      go_back(std::stoi(found->manifest.run_id()), found->manifest.step());
    open_best(run_, "r");
    sync_names(run_);
    replace_file(run_ / "config.ini", "[training]\n");
    return found ? found->manifest.step() : 0;
  }

  void save(int number, uint64_t step, size_t keep = 2) {
    sample_tensors tensors{static_cast<uint64_t>(number), 16};
    auto manifest = sample_manifest(step);
    manifest.set_run_id(std::to_string(number));
    mark("checkpoint begins", number);
    write_checkpoint(checkpoints(), manifest, {tensors.weights, tensors.slots});
    mark("checkpoint done", number);
    prune(checkpoints(), keep);
  }

  /// Goes back to a step, as `--resume PATH` does.
  void go_back(int number, uint64_t step) {
    mark("checkpoint begins", number);
    set_aside_newer(checkpoints(), step, {});
    mark("checkpoint done", number);
  }

  void save_best(int number) {
    sample_tensors tensors{static_cast<uint64_t>(number), 16};
    mark("best begins", number);
    write_best(run_, {static_cast<uint64_t>(number), testing::found(0.5, 1)},
               "r", tensors.weights);
    mark("best done", number);
  }

private:
  static void mark(const std::string& text, int number) {
    mark_recording(text + " " + std::to_string(number));
  }

  fs::path run_;
};

/// The numbers of which a reader must find one; 0: it finds nothing.
struct expected {
  std::set<int> checkpoints{0};
  std::set<int> bests{0};

  void note_event(const disk_event& event) {
    std::istringstream words{event.text};
    std::string what, stage;
    int number = 0;
    words >> what >> stage >> number;
    auto& all = what == "best" ? bests : checkpoints;
    if (stage == "done")
      all = {number};
    else
      all.insert(number);
  }
};

std::string in_words(const std::set<int>& numbers) {
  std::string out;
  for (auto x : numbers)
    out += (out.empty() ? "" : " or ") + std::to_string(x);
  return out;
}

/// Says what is wrong with the folder; empty if all is well. A reader
/// takes the folder as it is; a server cleans up first.
std::string complaint(const fs::path& run, const expected& wanted,
                      bool exchanges) {
  auto dir = run / "checkpoints";
  // Without exchanges a replaced one may wait under another name.
  for (auto cleaned : {false, true}) {
    if (cleaned)
      remove_leftovers(dir);
    for (const auto& entry : list_checkpoints(dir)) {
      try {
        read_checkpoint(entry.path);
      } catch (const run_error& x) {
        return x.what();
      }
    }
    if (!cleaned && !exchanges)
      continue;
    auto found = newest_valid(dir, {});
    auto number = found ? std::stoi(found->manifest.run_id()) : 0;
    if (!wanted.checkpoints.contains(number))
      return "checkpoint " + std::to_string(number) + " is the newest, not " +
             in_words(wanted.checkpoints);
    if (found) {
      sample_tensors content{static_cast<uint64_t>(number), 16};
      if (!std::ranges::equal(found->model.find("conv1.weight")->bytes,
                              content.weights[0].bytes))
        return "checkpoint " + std::to_string(number) + " has other weights";
    }
  }
  auto best = open_best(run, "r");
  auto number = best ? static_cast<int>(best->step) : 0;
  if (!wanted.bests.contains(number))
    return "the best weights are " + std::to_string(number) + ", not " +
           in_words(wanted.bests);
  return "";
}

/// A trace, and the folder as it was before.
struct recording {
  explicit recording(const fs::path& folder)
    : root(folder / "root"), trace(folder / "trace"),
      before(folder / "before") {
    fs::create_directories(root);
  }

  template <class F>
  void of(F body) {
    fs::remove_all(before);
    fs::copy(root, before, fs::copy_options::recursive);
    forbid_exchange(!exchanges);
    begin_recording(root, trace);
    body();
    end_recording();
    forbid_exchange(false);
    events = read_disk_trace(trace);
  }

  fs::path root, trace, before;
  std::vector<disk_event> events;
  bool exchanges = true;
};

/// Fails the power after each event, with so many chances to lose something.
void check_all(const recording& record, const fs::path& run, int chances,
               uint64_t seed, expected wanted = {}) {
  disk_image disk{record.events, record.before};
  temporary_folder scratch{fast_folder()};
  auto after = scratch / "after";
  for (size_t moment = 0; moment <= disk.moments(); ++moment) {
    if (moment > 0 && record.events[moment - 1].what == disk_call::mark)
      wanted.note_event(record.events[moment - 1]);
    for (int time = -2; time < chances; ++time) {
      std::mt19937_64 random{seed + moment * 1000 +
                             static_cast<uint64_t>(time + 2)};
      auto rest = time == -2 ? fate::none : time == -1 ? fate::all : fate::some;
      disk.write(after, moment, rest, random);
      auto wrong = complaint(after / run, wanted, record.exchanges);
      if (wrong.empty())
        continue;
      INFO("seed " << seed << ", after event " << moment << " of "
                   << disk.moments() << ", luck " << time);
      FAIL(wrong);
    }
  }
}

const fs::path run{"runs/net-1"};

/// First writes, a replacement, pruning, a course that is given up, and the
/// next.
void first_life(const fs::path& root) {
  life it{root / run};
  it.begin();
  it.save(1, 10);
  it.save_best(1);
  it.save(2, 20);
  it.save(3, 20); // Replaces it.
  it.save(4, 30);
  it.save_best(4);
  it.save(5, 40, 3);
  it.go_back(4, 30);
  it.save(6, 40);
  it.save_best(6);
}

void check_first_life() {
  auto seed = GENERATE(uint64_t{1}, uint64_t{2});
  auto exchanges = GENERATE(true, false);
  INFO("exchanges " << exchanges);
  temporary_folder folder;
  recording it{folder.path()};
  it.exchanges = exchanges;
  it.of([&] { first_life(it.root); });
  REQUIRE(it.events.size() > 200);
  check_all(it, run, times, seed);
}

} // namespace

TEST_CASE("the recorder sees what it is there for") {
  temporary_folder folder;
  recording it{folder.path()};
  it.of([&] { first_life(it.root); });
  auto count = [&](disk_call call) {
    return std::ranges::count(it.events, call, &disk_event::what);
  };
  CHECK(count(disk_call::write) > 30);
  CHECK(count(disk_call::sync) > 30);
  CHECK(count(disk_call::make) >= 9);
  CHECK(count(disk_call::exchange) == 1);
  CHECK(count(disk_call::rename) >= 10);
  CHECK(count(disk_call::unlink) >= 6);
  CHECK(count(disk_call::remove) >= 3);
  // If nothing is lost, the image equals the folder.
  disk_image disk{it.events};
  std::mt19937_64 random{1};
  auto copy = folder / "copy";
  disk.write(copy, disk.moments(), fate::all, random);
  size_t files = 0;
  for (const auto& entry : fs::recursive_directory_iterator{it.root}) {
    auto same = copy / entry.path().lexically_relative(it.root);
    CHECK(fs::is_directory(same) == entry.is_directory());
    if (!entry.is_directory()) {
      CHECK(slurp(same) == slurp(entry.path()));
      ++files;
    }
  }
  CHECK(files >= 7);
}

TEST_CASE("a disk keeps what was synced, and may lose the rest") {
  temporary_folder folder;
  recording it{folder.path()};
  it.of([&] {
    output_file out{it.root / "a"};
    out.write("one");
    out.finish();
    sync_folder(it.root);
    output_file other{it.root / "b"};
    other.write("two");
    mark_recording("end");
  });
  disk_image disk{it.events};
  std::mt19937_64 random{1};
  auto after = folder / "after";
  disk.write(after, disk.moments(), fate::none, random);
  CHECK(slurp(after / "a") == "one");
  CHECK_FALSE(fs::exists(after / "b"));
  disk.write(after, 0, fate::all, random);
  CHECK(fs::is_empty(after));
  std::set<std::string> contents;
  for (int i = 0; i < 200; ++i) {
    disk.write(after, disk.moments(), fate::some, random);
    CHECK(slurp(after / "a") == "one");
    contents.insert(fs::exists(after / "b") ? "is " + slurp(after / "b")
                                            : "is not there");
  }
  CHECK(contents.contains("is not there"));
  CHECK(contents.contains("is "));
  CHECK(contents.contains("is two"));
  CHECK(contents.contains("is " + std::string(3, '\0')));
}

TEST_CASE("a loss of power leaves the last checkpoint that was acknowledged") {
  check_first_life();
}

TEST_CASE("a second loss of power leaves a whole checkpoint, too") {
  temporary_folder folder{fast_folder()};
  recording first{folder / "first"};
  first.of([&] { first_life(first.root); });
  disk_image disk{first.events};
  std::mt19937_64 random{3};
  for (int i = 0; i < 2 * times; ++i) {
    auto moment = random() % (disk.moments() + 1);
    INFO("life " << i << " begins after event " << moment);
    auto seed = random();
    expected known;
    for (size_t at = 0; at < moment; ++at)
      if (first.events[at].what == disk_call::mark)
        known.note_event(first.events[at]);
    recording second{folder / "second"};
    disk.write(second.root, moment, fate::some, random);
    second.of([&] {
      life it{second.root / run};
      auto from = it.begin();
      it.save(11, from + 10);
      it.save_best(11);
      it.save(12, from + 20);
    });
    check_all(second, run, 1, seed, known);
    fs::remove_all(folder / "second");
  }
}

TEST_CASE("best weights that the disk cannot read now are kept, and the line "
          "says why") {
  temporary_folder folder;
  life it{folder.path()};
  it.save_best(7);
  auto path = folder / "best.safetensors";
  auto content = slurp(path);
  break_reads(fs::canonical(path));
  std::string line;
  try {
    open_best(folder.path(), "r");
  } catch (const run_error& x) {
    line = x.what();
  }
  temporary_folder other;
  CHECK_THROWS_AS(copy_best(folder.path(), other.path(), 7, "r"), run_error);
  break_reads({});
  CHECK(line == "cannot read " + path.string() + ": Input/output error");
  CHECK(slurp(path) == content);
  CHECK(open_best(folder.path(), "r")->step == 7);
}
