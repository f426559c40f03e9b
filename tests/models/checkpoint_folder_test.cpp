#include "config/text/failure.hpp"
#include "models/storage/checkpoint.hpp"
#include "tests/models/checkpoint_samples.hpp"
#include "tests/support/temporary_folder.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <chrono>

using namespace troupe;
using namespace troupe::models;
using Catch::Matchers::ContainsSubstring;
using testing::temporary_folder;
using testing::write_sample;

namespace fs = std::filesystem;

namespace {

std::vector<uint64_t> steps_in(const fs::path& dir) {
  std::vector<uint64_t> result;
  for (const auto& x : list_checkpoints(dir))
    result.push_back(x.step);
  return result;
}

using steps = std::vector<uint64_t>;

} // namespace

TEST_CASE("checkpoints are listed by step and other names are left out") {
  temporary_folder folder;
  for (uint64_t step : {300, 20, 100})
    write_sample(folder.path(), step);
  for (const auto* name : {"step-7", "step-00000x00", "step-", ".tmp-step-1",
                           "abandoned-step-00000001", "Step-00000001"})
    fs::create_directory(folder / name);
  CHECK(steps_in(folder.path()) == steps{20, 100, 300});
  CHECK(steps_in(folder / "absent").empty());
}

TEST_CASE("the newest ones survive pruning") {
  temporary_folder folder;
  for (uint64_t step : {1, 2, 3, 4, 5})
    write_sample(folder.path(), step);
  prune(folder.path(), 3);
  CHECK(steps_in(folder.path()) == steps{3, 4, 5});
  prune(folder.path(), 3);
  CHECK(steps_in(folder.path()) == steps{3, 4, 5});
  prune(folder.path(), 0);
  CHECK(steps_in(folder.path()) == steps{5});
  CHECK(std::distance(fs::directory_iterator{folder.path()}, {}) == 1);
}

TEST_CASE("pruning leaves the checkpoints that are to stay") {
  temporary_folder folder;
  for (uint64_t step : {1, 2, 3, 4, 5})
    write_sample(folder.path(), step);
  steps stay{2, 5, 9};
  prune(folder.path(), 2, stay);
  CHECK(steps_in(folder.path()) == steps{2, 4, 5});
}

TEST_CASE("leftovers of a killed writer go and checkpoints stay") {
  temporary_folder folder;
  auto path = write_sample(folder.path(), 100);
  fs::copy(path, folder / ".tmp-step-00000200");
  fs::copy(path, folder / ".old-step-00000100");
  fs::create_directory(folder / ".tmp-of-somebody-else");
  CHECK(remove_leftovers(folder.path()) == 2);
  CHECK(steps_in(folder.path()) == steps{100});
  CHECK(fs::exists(folder / ".tmp-of-somebody-else"));
  CHECK(remove_leftovers(folder / "absent") == 0);
}

TEST_CASE("a checkpoint that was about to be replaced is put back") {
  temporary_folder folder;
  auto path = write_sample(folder.path(), 100);
  fs::rename(path, folder / ".old-step-00000100");
  CHECK(remove_leftovers(folder.path()) == 0);
  CHECK(read_checkpoint(path).manifest.step() == 100);
}

TEST_CASE("checkpoints of an abandoned course are set aside") {
  temporary_folder folder;
  for (uint64_t step : {100, 200, 300})
    write_sample(folder.path(), step);
  std::vector<std::string> lines;
  auto keep_line = [&](const std::string& line) {
    lines.push_back(line);
  };
  set_aside_newer(folder.path(), 200, keep_line);
  CHECK(steps_in(folder.path()) == steps{100, 200});
  CHECK(lines.size() == 1);
  write_sample(folder.path(), 300);
  set_aside_newer(folder.path(), 100, keep_line);
  CHECK(steps_in(folder.path()) == steps{100});
  CHECK(fs::exists(folder / "abandoned-step-00000300.2"));
  // They can still be named.
  CHECK(read_checkpoint(folder / "abandoned-step-00000200").manifest.step() ==
        200);
}

TEST_CASE("abandoned checkpoints are pruned like others, and apart from them") {
  temporary_folder folder;
  std::vector<std::string> all;
  auto at = fs::file_time_type::clock::now() - std::chrono::hours(24);
  // A higher step may have been written before, and one step several times.
  for (auto name : {"abandoned-step-00000300", "abandoned-step-00000100",
                    "abandoned-step-00000100.2", "abandoned-step-123456789"}) {
    fs::create_directories(folder / name / "shard-1");
    fs::last_write_time(folder / name, at += std::chrono::hours(1));
    all.push_back(name);
  }
  for (auto name : {"abandoned-best.safetensors", "abandoned-step-1",
                    "abandoned-step-00000100.mine", "abandoned-step-00000100."})
    fs::create_directories(folder / name);
  for (uint64_t step : {1, 2, 3})
    write_sample(folder.path(), step);
  auto names = [&] {
    std::vector<std::string> out;
    for (const auto& path : list_abandoned(folder.path()))
      out.push_back(path.filename().string());
    return out;
  };
  CHECK(names() == all);
  prune(folder.path(), 2);
  CHECK(steps_in(folder.path()) == steps{2, 3});
  CHECK(names() == std::vector(all.end() - 2, all.end()));
  CHECK(fs::exists(folder / "abandoned-step-1"));
  CHECK(list_abandoned(folder / "absent").empty());
}

TEST_CASE("resume may name a checkpoint, their folder or a run") {
  temporary_folder run;
  auto dir = run / "checkpoints";
  auto older = write_sample(dir, 100);
  write_sample(dir, 200);
  CHECK(find_checkpoint(older, {}).manifest.step() == 100);
  CHECK(find_checkpoint(dir, {}).manifest.step() == 200);
  CHECK(find_checkpoint(run.path(), {}).manifest.step() == 200);
  CHECK(find_checkpoint(run.path() / "", {}).manifest.step() == 200);
  CHECK_THROWS_WITH(find_checkpoint(run / "absent", {}),
                    ContainsSubstring("no checkpoint at "));
}
