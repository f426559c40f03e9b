#include "config/run_folder/own_file.hpp"
#include "config/run_folder/train_dir.hpp"
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

/// The first line of a run's config.ini.
constexpr auto of_a_run =
  "# The settings of this run, resolved by trainer_node 0.1.0.\n";

/// Writes a run's files as they are found, beside a note that is not ours.
void write_run(const scratch& folder) {
  for (auto name :
       {"r/config.ini", "r/metrics.jsonl", "r/summary.json", "r/config.ini.tmp",
        "r/events.out.tfevents.1.0000.troupe", "r/tape-1.pb",
        "r/abandoned-tape-2.pb", "r/notes.txt", "r/scores.jsonl",
        "r/described/net.safetensors", "r/described/net.safetensors.tmp",
        "r/checkpoints/step-00000100/manifest.pb",
        "r/checkpoints/step-00000100/model.safetensors",
        "r/checkpoints/step-00000100/optimizer.safetensors",
        "r/checkpoints/.tmp-step-00000200/model.safetensors",
        "r/checkpoints/abandoned-step-00000300/manifest.pb"})
    folder.write(name, "x");
  folder.write("r/config.ini", of_a_run);
  folder.write("r/metrics.jsonl", "{\"kind\":\"started\"}\n");
  folder.write("r/summary.json", "{\n  \"status\": \"completed\"\n}\n");
}

/// Writes the files of a start that failed before the first update.
void write_first_try(const scratch& folder) {
  folder.write("r/config.ini",
               std::string{of_a_run} +
                 "network = weights:/x/described/net.safetensors"
                 "\ntape = true\n");
  folder.write("r/metrics.jsonl", "{\"kind\":\"started\",\"step\":0}\n"
                                  "{\"kind\":\"joined\",\"step\":0}\n");
  folder.write("r/summary.json",
               "{\n  \"status\": \"failed\",\n  \"steps\": 0,\n}\n");
  for (auto name : {"r/lives", "r/tape-1.pb", "r/described/net.safetensors",
                    "r/events.out.tfevents.1.0000.troupe",
                    "r/checkpoints/step-00000000/manifest.pb",
                    "r/checkpoints/.tmp-step-00000000/model.safetensors"})
    folder.write(name, "1");
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
  CHECK(make_score_folder("lenet", root.path()) ==
        root.path() / "runs/lenet-scores-1");
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

TEST_CASE("a run that made no update may be replaced", "[train-dir]") {
  scratch root;
  write_first_try(root);
  root.write("r/notes.txt", "mine");
  auto before = files_below(root.path());
  auto made = open_run_directory(in("r"), root.path());
  CHECK(made.overwrites);
  CHECK_FALSE(made.continues);
  before.insert("r/run.lock");
  CHECK(files_below(root.path()) == before);
  remove_run(made.path);
  CHECK(files_below(made.path) ==
        std::set<std::string>{"notes.txt", "run.lock"});
  write_first_try(root);
  auto resumed = in("r");
  resumed.resume = "auto";
  made = {};
  CHECK(open_run_directory(resumed, root.path()).continues);
  for (std::string name : {"r/metrics.jsonl", "r/summary.json"})
    fs::remove(root.path() / name); // It was killed early.
  CHECK(open_run_directory(in("r"), root.path()).overwrites);
}

TEST_CASE("a run is not replaced if anything of it, or of a user's, counts",
          "[train-dir]") {
  const std::pair<std::string, std::string> more[] = {
    {"config.ini", "[mine]\n"},
    {"config.ini", of_a_run}, // Then tape and description are not of the run.
    {"metrics.jsonl", "{\"kind\":\"update\",\"step\":1}\n"},
    {"metrics.jsonl", "mine"},
    {"summary.json", "{\n  \"status\": \"completed\",\n  \"steps\": 0,\n}\n"},
    {"summary.json", "{\n  \"status\": \"failed\",\n  \"steps\": 20,\n}\n"},
    {"best.safetensors", "x"},
    {"abandoned-1-best.safetensors", "x"},
    {"described/mine.safetensors", "x"},
    {"residuals/step-00000001/worker-0", "x"},
    {"checkpoints/step-00000001/manifest.pb", "x"},
    {"checkpoints/.tmp-step-00000010/model.safetensors", "x"},
    {"checkpoints/abandoned-step-00000003/manifest.pb", "x"}};
  for (const auto& [name, text] : more) {
    INFO(name << " " << text);
    scratch root;
    write_first_try(root);
    root.write("r/" + name, text);
    auto before = files_below(root.path());
    CHECK(complaint([&] {
            open_run_directory(in("r"), root.path());
          }).find(": holds a run already: ") != std::string::npos);
    CHECK(files_below(root.path()) == before);
  }
}

TEST_CASE("resume takes a folder, and says what takes a file", "[train-dir]") {
  scratch root;
  root.write("net.pth.tar", "x");
  auto training = in("r");
  training.resume = "net.pth.tar";
  CHECK(complaint([&] { open_run_directory(training, root.path()); }) ==
        "resume net.pth.tar: is a file, and --resume takes a run directory or "
        "a checkpoint in one; --init FILE begins a run with the weights of a "
        "file");
  CHECK_FALSE(fs::exists(root.path() / "r"));
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
  root.write("r/config.ini", of_a_run);
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
  root.write("r/events.out.tfevents.1.host.7.0", "x"); // Another program's.
  remove_run(root.path() / "r");
  CHECK(files_below(root.path() / "r") ==
        std::set<std::string>{
          "notes.txt", "events.out.tfevents.1.host.7.0", "sub",
          "sub/metrics.jsonl", "checkpoints", "checkpoints/best",
          "checkpoints/best/model.safetensors", "checkpoints/step-00000100",
          "checkpoints/step-00000100/mine.txt"});
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

TEST_CASE("a train-dir that cannot be made is refused by its path",
          "[train-dir]") {
  scratch root;
  root.write("file", "x");
  CHECK(complaint([&] { open_run_directory(in("file"), root.path()); }) ==
        "train-dir " + (root.path() / "file").string() + ": is no folder");
  CHECK_THROWS_AS(open_run_directory(in("file/below"), root.path()),
                  troupe::failure);
  CHECK_THROWS_AS(open_run_directory({}, root.path() / "file"), run_error);
}

TEST_CASE("what is not of a run is neither gone on with nor removed",
          "[train-dir]") {
  for (std::string name :
       {"config.ini", "metrics.jsonl", "summary.json", "best.safetensors"})
    for (auto resumes : {true, false}) {
      INFO(name << resumes);
      scratch root;
      root.write("r/checkpoints/step-00000001/manifest.pb", "x");
      root.write("r/" + name, "[mine]\nyears = 3\n");
      auto training = in("r");
      training.overwrite = !resumes;
      if (resumes)
        training.resume = "auto";
      auto before = files_below(root.path());
      auto said = complaint([&] { open_run_directory(training, root.path()); });
      CHECK(said == "train-dir " + (root.path() / "r").string() + ": " + name +
                      " there is not of a run: move it away, or give another "
                      "folder");
      CHECK(files_below(root.path()) == before);
    }
}

TEST_CASE("a lock that is a file of something else is left as it is",
          "[train-dir]") {
  scratch root;
  root.write("r/run.lock", "my notes\n");
  CHECK_THROWS_AS(run_lock::acquire(root.path() / "r"), usage_error);
  CHECK(run_lock::look(root.path() / "r").holder == "my notes");
}

TEST_CASE("a process sees whether another holds a lock, and whose it was",
          "[train-dir]") {
  scratch root;
  auto folder = root.path() / "r";
  CHECK(run_lock::look(folder).state == lock_state::absent);
  fs::create_directory(folder);
  CHECK(run_lock::look(folder).state == lock_state::absent);
  auto first = run_lock::acquire(folder);
  CHECK(first->warning().empty());
  CHECK_FALSE(first->was_ours());
  auto [state, holder] = run_lock::look(folder);
  CHECK(state == lock_state::held);
  CHECK(holder.starts_with("process " + std::to_string(::getpid()) + " on "));
  first.reset();
  CHECK(run_lock::look(folder).state == lock_state::free);
  CHECK(run_lock::acquire(folder)->was_ours());
  root.write("r/run.lock", "process 1 on another-host\n");
  CHECK_FALSE(run_lock::acquire(folder)->was_ours());
}

TEST_CASE("a lock that is about to be free is waited for", "[train-dir]") {
  scratch root;
  auto first = run_lock::acquire(root.path());
  CHECK_THROWS_AS(run_lock::acquire(root.path(), 0.03), run_error);
  std::jthread ends{[&] {
    first.reset();
  }};
  CHECK_NOTHROW(run_lock::acquire(root.path(), 60));
}

TEST_CASE("a process that must not hold the lock leaves its holder there",
          "[train-dir]") {
  scratch root;
  root.write("run.lock", "process 1 on another-host\n");
  auto refuse = [](const run_lock&) {
    throw run_error("not now");
  };
  CHECK_THROWS_AS(run_lock::acquire(root.path(), 0, refuse), run_error);
  CHECK(run_lock::look(root.path()).holder == "process 1 on another-host");
  CHECK(run_lock::look(root.path()).state == lock_state::free);
}

TEST_CASE("a file that is named for output is replaced only if it is ours",
          "[train-dir]") {
  scratch root;
  root.write("theirs", "x,y\n");
  root.write("ours", "{ our\n");
  root.write("empty", "");
  auto name = [&](const char* word) {
    return (root.path() / word).string();
  };
  for (auto what : {"ours", "empty", "absent"})
    CHECK_NOTHROW(require_own_file("--json", name(what), "{ our"));
  CHECK(complaint([&] {
          require_own_file("--json", name("theirs"), "{ our");
        }) == "--json " + name("theirs") +
                ": is there already, as a file of something else: name another "
                "file, or move it away");
  CHECK_THROWS_AS(require_own_file("--out", name("ours")), usage_error);
  CHECK_THROWS_AS(require_own_file("--out", root.path()), usage_error);
  CHECK_THROWS_AS(require_own_file("--out", "/dev/null"), usage_error);
}
