#include "config/sources/train_dir.hpp"
#include "tests/config/support.hpp"

#include <catch2/catch_test_macros.hpp>

#include <set>
#include <thread>

using namespace troupe;
using namespace troupe::config;
using namespace troupe::config::test;

namespace fs = std::filesystem;

namespace {

training_settings in(const std::string& folder) {
  training_settings result;
  result.train_dir = folder;
  return result;
}

/// A run as it lies about, with a note that is not ours.
void write_run(const scratch& folder) {
  for (auto name :
       {"r/config.ini", "r/metrics.jsonl", "r/summary.json", "r/config.ini.tmp",
        "r/events.out.tfevents.1.host", "r/tape-1.pb", "r/abandoned-tape-2.pb",
        "r/notes.txt", "r/described/net.safetensors",
        "r/described/net.safetensors.tmp",
        "r/checkpoints/step-00000100/manifest.pb",
        "r/checkpoints/step-00000100/model.safetensors",
        "r/checkpoints/step-00000100/optimizer.safetensors",
        "r/checkpoints/.tmp-step-00000200/model.safetensors",
        "r/checkpoints/abandoned-step-00000300/manifest.pb"})
    folder.write(name, "x");
}

std::set<std::string> files_below(const fs::path& folder) {
  std::set<std::string> result;
  for (const auto& entry : fs::recursive_directory_iterator{folder})
    result.insert(fs::relative(entry.path(), folder).string());
  return result;
}

} // namespace

TEST_CASE("without a train-dir every run gets the next folder", "[train-dir]") {
  scratch root;
  auto open = [&] {
    return open_run_directory({}, root.path()).path;
  };
  CHECK(open() == root.path() / "runs/lenet-1");
  CHECK(open() == root.path() / "runs/lenet-2");
  fs::create_directory(root.path() / "runs/lenet-41");
  root.write("runs/lenet-x", "");
  root.write("runs/resnet-99", "");
  CHECK(open() == root.path() / "runs/lenet-42");
  CHECK(fs::is_directory(root.path() / "runs/lenet-42"));
}

TEST_CASE("runs that start at once get folders of their own", "[train-dir]") {
  scratch root;
  std::vector<fs::path> paths(16);
  {
    std::vector<std::jthread> starters;
    for (auto& path : paths)
      starters.emplace_back(
        [&] { path = open_run_directory({}, root.path()).path; });
  }
  CHECK(std::set<fs::path>(paths.begin(), paths.end()).size() == 16);
}

TEST_CASE("a folder without a run is taken as it is", "[train-dir]") {
  scratch root;
  CHECK_FALSE(open_run_directory(in("a/b"), root.path()).continues);
  CHECK(fs::is_directory(root.path() / "a/b"));
  root.write("a/b/slurm.out", "x");
  CHECK_FALSE(open_run_directory(in("a/b"), root.path()).continues);
  CHECK(fs::exists(root.path() / "a/b/slurm.out"));
}

TEST_CASE("a folder that holds a run needs resume or overwrite",
          "[train-dir]") {
  for (auto name : {"summary.json", "metrics.jsonl", "config.ini",
                    "checkpoints/step-00000001/manifest.pb"}) {
    INFO(name);
    scratch root;
    root.write(std::string{"r/"} + name, "x");
    CHECK(complaint([&] { open_run_directory(in("r"), root.path()); }) ==
          "train-dir " + (root.path() / "r").string() +
            ": holds a run already: give --resume to go on with it, "
            "--overwrite to remove it, or another folder");
  }
}

TEST_CASE("resume goes on in a folder that holds a run", "[train-dir]") {
  scratch root;
  write_run(root);
  auto before = files_below(root.path());
  auto training = in("r");
  training.resume = "auto";
  CHECK(open_run_directory(training, root.path()).continues);
  before.insert("r/run.lock");
  CHECK(files_below(root.path()) == before);
  training.train_dir = "fresh";
  CHECK_FALSE(open_run_directory(training, root.path()).continues);
}

TEST_CASE("resume from what is not there is refused", "[train-dir]") {
  scratch root;
  auto training = in("r");
  training.resume = "elsewhere";
  CHECK(complaint([&] { open_run_directory(training, root.path()); }) ==
        "resume elsewhere: no such folder");
  CHECK_FALSE(fs::exists(root.path() / "r"));
  fs::create_directory(root.path() / "elsewhere");
  CHECK_NOTHROW(open_run_directory(training, root.path()));
}

TEST_CASE("overwrite removes nothing before the new run can start",
          "[train-dir]") {
  scratch root;
  write_run(root);
  auto before = files_below(root.path());
  auto training = in("r");
  training.overwrite = true;
  auto made = open_run_directory(training, root.path());
  CHECK_FALSE(made.continues);
  CHECK(made.overwrites);
  before.insert("r/run.lock");
  CHECK(files_below(root.path()) == before);
  CHECK_FALSE(open_run_directory(in("fresh"), root.path()).overwrites);
}

TEST_CASE("a second process is kept out of a run directory", "[train-dir]") {
  scratch root;
  auto first = open_run_directory(in("r"), root.path());
  auto refusal = [&](const training_settings& training) -> std::string {
    try {
      open_run_directory(training, root.path());
      return "";
    } catch (const run_error& error) {
      return error.what();
    }
  };
  auto said = refusal(in("r"));
  CHECK(said.starts_with("train-dir " + (root.path() / "r").string() +
                         ": a run is under way there, of process " +
                         std::to_string(::getpid()) + " on "));
  root.write("r/config.ini", "x");
  for (auto resumes : {true, false}) {
    auto training = in("r");
    training.overwrite = !resumes;
    if (resumes)
      training.resume = "auto";
    CHECK(refusal(training) == said);
    CHECK(open_run_directory(training, root.path(), first.lock).path ==
          first.path);
  }
  CHECK(fs::exists(root.path() / "r/config.ini"));
}

TEST_CASE("a run directory is free again when its run is over", "[train-dir]") {
  scratch root;
  open_run_directory(in("r"), root.path());
  CHECK_NOTHROW(open_run_directory(in("r"), root.path()));
}

TEST_CASE("overwrite removes the run and nothing else", "[train-dir]") {
  scratch root;
  write_run(root);
  root.write("r/checkpoints/step-00000100/mine.txt", "x");
  root.write("r/checkpoints/best/model.safetensors", "x");
  root.write("r/sub/metrics.jsonl", "x");
  root.write("r/lives", "3");
  remove_run(root.path() / "r");
  CHECK(files_below(root.path() / "r") ==
        std::set<std::string>{
          "notes.txt", "sub", "sub/metrics.jsonl", "checkpoints",
          "checkpoints/best", "checkpoints/best/model.safetensors",
          "checkpoints/step-00000100", "checkpoints/step-00000100/mine.txt"});
}

TEST_CASE("overwrite leaves an empty folder of a plain run", "[train-dir]") {
  scratch root;
  write_run(root);
  fs::remove(root.path() / "r/notes.txt");
  remove_run(root.path() / "r");
  CHECK(fs::is_empty(root.path() / "r"));
  CHECK_FALSE(holds_run(root.path() / "r"));
}

TEST_CASE("overwrite does not follow links out of the run", "[train-dir]") {
  scratch root;
  root.write("precious/model.safetensors", "x");
  root.write("precious/metrics.jsonl", "x");
  root.write("r/config.ini", "x");
  fs::create_directory(root.path() / "r/checkpoints");
  fs::create_directory_symlink(root.path() / "precious",
                               root.path() / "r/checkpoints/step-00000100");
  fs::create_symlink(root.path() / "precious/metrics.jsonl",
                     root.path() / "r/metrics.jsonl");
  remove_run(root.path() / "r");
  CHECK(fs::exists(root.path() / "precious/model.safetensors"));
  CHECK(fs::exists(root.path() / "precious/metrics.jsonl"));
  CHECK_FALSE(fs::is_symlink(root.path() / "r/metrics.jsonl"));
}

TEST_CASE("a train-dir that cannot be is said by name", "[train-dir]") {
  scratch root;
  root.write("file", "x");
  CHECK(complaint([&] { open_run_directory(in("file"), root.path()); }) ==
        "train-dir " + (root.path() / "file").string() + ": is no folder");
  CHECK_THROWS_AS(open_run_directory(in("file/below"), root.path()),
                  troupe::failure);
  CHECK_THROWS_AS(open_run_directory({}, root.path() / "file"), run_error);
}
