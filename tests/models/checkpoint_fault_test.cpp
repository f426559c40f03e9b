// Checkpoints when the disk is full, closed to us, or the writer is killed.

#include "config/text/failure.hpp"
#include "models/storage/checkpoint.hpp"
#include "tests/models/checkpoint_samples.hpp"
#include "tests/support/temporary_folder.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <random>

using namespace troupe;
using namespace troupe::models;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::EndsWith;
using testing::sample_manifest;
using testing::sample_tensors;
using testing::temporary_folder;
using testing::write_sample;

namespace fs = std::filesystem;

namespace {

constexpr auto no_chance = "skip"; // the machine does not let us try

/// What the failure says that a process of its own meets in `body`. The process
/// may limit itself as it likes.
template <class F>
std::string failure_in_child(F body) {
  int ends[2];
  REQUIRE(::pipe(ends) == 0);
  auto child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    std::string line = "no failure";
    try {
      line = body();
    } catch (const run_error& x) {
      line = x.what();
    } catch (const std::exception& x) {
      line = std::string{"not a run_error: "} + x.what();
    }
    auto n = ::write(ends[1], line.data(), line.size());
    ::_exit(n == static_cast<ssize_t>(line.size()) ? 0 : 1);
  }
  ::close(ends[1]);
  std::string result;
  char piece[512];
  for (ssize_t n; (n = ::read(ends[0], piece, sizeof piece)) > 0;)
    result.append(piece, static_cast<size_t>(n));
  ::close(ends[0]);
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(status == 0);
  return result;
}

void write_big(const fs::path& dir, uint64_t step) {
  sample_tensors tensors{step, 1 << 20};
  write_checkpoint(dir, sample_manifest(step),
                   {tensors.weights, tensors.slots});
}

size_t entries(const fs::path& dir) {
  return static_cast<size_t>(std::distance(fs::directory_iterator{dir}, {}));
}

/// Mounts a small file system on `folder`, for this process alone.
bool mount_small(const fs::path& folder) {
  auto spaces = ::geteuid() == 0 ? CLONE_NEWNS : CLONE_NEWNS | CLONE_NEWUSER;
  return ::unshare(spaces) == 0 &&
         ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
         ::mount("tmpfs", folder.c_str(), "tmpfs", 0, "size=512k") == 0;
}

} // namespace

TEST_CASE("a write to a full device names the file and the reason") {
  output_file out{"/dev/full"};
  CHECK_THROWS_WITH(out.write("x"), "cannot write /dev/full: "
                                    "No space left on device");
}

TEST_CASE("a checkpoint that the disk has no room for leaves nothing behind") {
  temporary_folder folder;
  auto line = failure_in_child([&]() -> std::string {
    if (!mount_small(folder.path()))
      return no_chance;
    write_sample(folder.path(), 100);
    std::string result = "no failure";
    try {
      write_big(folder.path(), 200);
    } catch (const run_error& x) {
      result = x.what();
    }
    // Nobody else sees this file system, so look at it here.
    if (entries(folder.path()) != 1)
      return "there is something left behind";
    if (find_checkpoint(folder.path(), {}).manifest.step() != 100)
      return "the one before is lost";
    write_sample(folder.path(), 300); // there is room again
    return result;
  });
  if (line == no_chance)
    SKIP("this machine lets us mount nothing");
  CHECK_THAT(line, ContainsSubstring("step-00000200 was not written") &&
                     ContainsSubstring("model.safetensors") &&
                     EndsWith("No space left on device"));
}

TEST_CASE("a checkpoint above the limit for files leaves nothing behind") {
  temporary_folder folder;
  write_sample(folder.path(), 100);
  auto line = failure_in_child([&]() -> std::string {
    std::signal(SIGXFSZ, SIG_IGN);
    rlimit limit{64 << 10, 64 << 10};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    write_big(folder.path(), 200);
    return "no failure";
  });
  CHECK_THAT(line, ContainsSubstring("step-00000200 was not written") &&
                     EndsWith("File too large"));
  CHECK(entries(folder.path()) == 1);
  CHECK(find_checkpoint(folder.path(), {}).manifest.step() == 100);
}

TEST_CASE("a failed replacement leaves the checkpoint as it was") {
  temporary_folder folder;
  auto path = write_sample(folder.path(), 200);
  auto before = testing::slurp(path / "manifest.pb");
  auto line = failure_in_child([&]() -> std::string {
    std::signal(SIGXFSZ, SIG_IGN);
    rlimit limit{64 << 10, 64 << 10};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    write_big(folder.path(), 200);
    return "no failure";
  });
  CHECK_THAT(line, EndsWith("File too large"));
  CHECK(testing::slurp(path / "manifest.pb") == before);
  CHECK(read_checkpoint(path).manifest.step() == 200);
  CHECK(entries(folder.path()) == 1);
}

TEST_CASE("a folder that we may not write to is named") {
  temporary_folder folder;
  auto dir = folder / "closed";
  fs::create_directory(dir);
  REQUIRE(::chmod(folder.path().c_str(), 0755) == 0);
  REQUIRE(::chmod(dir.c_str(), 0555) == 0);
  auto line = failure_in_child([&]() -> std::string {
    if (::geteuid() == 0 && ::seteuid(65534) != 0)
      return no_chance;
    write_sample(dir, 100);
    return "no failure";
  });
  if (line == no_chance)
    SKIP("root cannot become nobody here");
  CHECK_THAT(line,
             ContainsSubstring(dir.string()) && EndsWith("Permission denied"));
  CHECK(fs::is_empty(dir));
}

TEST_CASE("a file in the place of the folder is named") {
  temporary_folder folder;
  testing::spill(folder / "checkpoints", "");
  CHECK_THROWS_WITH(write_sample(folder / "checkpoints", 1),
                    ContainsSubstring("cannot create") &&
                      ContainsSubstring("Not a directory"));
}

TEST_CASE("a killed writer leaves whole checkpoints only", "[kill]") {
  temporary_folder folder;
  const auto& dir = folder.path();
  std::mt19937 random{20};
  uint64_t acknowledged = 0;
  for (int round = 0; round < 30; ++round) {
    int ends[2];
    REQUIRE(::pipe(ends) == 0);
    auto child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      // Each step twice, so that a kill also meets a replacement.
      for (auto step = acknowledged + 1;; ++step) {
        for (int time = 0; time < 2; ++time) {
          sample_tensors tensors{step, 1 << 16};
          write_checkpoint(dir, sample_manifest(step),
                           {tensors.weights, tensors.slots});
          if (::write(ends[1], &step, sizeof step) != sizeof step)
            ::_exit(1);
        }
        prune(dir, 3);
      }
    }
    ::close(ends[1]);
    // The first answer says that the writer is at work.
    REQUIRE(::read(ends[0], &acknowledged, sizeof acknowledged) ==
            sizeof acknowledged);
    ::usleep(static_cast<useconds_t>(random() % 20000));
    REQUIRE(::kill(child, SIGKILL) == 0);
    REQUIRE(::waitpid(child, nullptr, 0) == child);
    while (::read(ends[0], &acknowledged, sizeof acknowledged) > 0)
      continue;
    ::close(ends[0]);

    std::string skipped;
    auto found = newest_valid(dir, [&](auto& line) { skipped += line; });
    CHECK(skipped.empty());
    REQUIRE(found.has_value());
    auto step = found->manifest.step();
    CHECK(step >= acknowledged);
    sample_tensors expected{step, 1 << 16};
    CHECK(std::ranges::equal(found->model.find("conv1.weight")->bytes,
                             expected.weights[0].bytes));
    // Nor is an older one half written or half removed.
    for (const auto& entry : list_checkpoints(dir))
      CHECK_NOTHROW(read_checkpoint(entry.path));
    remove_leftovers(dir);
    CHECK(entries(dir) == list_checkpoints(dir).size());
    acknowledged = step;
  }
}

TEST_CASE("a killed pruner leaves whole checkpoints only", "[kill]") {
  temporary_folder folder;
  const auto& dir = folder.path();
  std::mt19937 random{21};
  uint64_t step = 0;
  for (int round = 0; round < 12; ++round) {
    while (list_checkpoints(dir).size() < 40)
      write_sample(dir, ++step);
    int ends[2];
    REQUIRE(::pipe(ends) == 0);
    auto child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      char ready = 1;
      if (::write(ends[1], &ready, 1) == 1)
        prune(dir, 1);
      ::_exit(0);
    }
    char ready = 0;
    REQUIRE(::read(ends[0], &ready, 1) == 1);
    ::usleep(static_cast<useconds_t>(random() % 1500));
    ::kill(child, SIGKILL);
    REQUIRE(::waitpid(child, nullptr, 0) == child);
    ::close(ends[0]);
    ::close(ends[1]);
    for (const auto& entry : list_checkpoints(dir))
      CHECK_NOTHROW(read_checkpoint(entry.path));
    remove_leftovers(dir);
    CHECK(list_checkpoints(dir).back().step == step);
    CHECK(entries(dir) == list_checkpoints(dir).size());
  }
}
