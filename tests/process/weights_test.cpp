// Weights that come in from files (`--init`), are scored (`--evaluate`), and go
// out again (`checkpoint export`).

#include "messages/proto/manifest.pb.h"
#include "tests/process/process_fixture.hpp"
#include "tests/support/zip_archive.hpp"

#include <catch2/catch_test_macros.hpp>

#include <algorithm>

using namespace troupe;
using namespace troupe::testing;

namespace fs = std::filesystem;

namespace {

const flags short_run{"--workers",         "1",       "--max-steps", "8",
                      "--threads",         "1",       "--eval-freq", "4",
                      "--clock",           "virtual", "--seed",      "3",
                      "--checkpoint-freq", "4"};

/// Runs a process to its end; returns what it said.
std::string run_to_end(process_fixture& on, const std::string& name,
                       const flags& options, int status = 0) {
  auto who = on.start(name, options);
  check_end(who, status);
  return status == 0 ? who.out() : who.err();
}

/// A run in the folder run(), and its final weights as NAME.
void train_and_export(process_fixture& on, const std::string& name,
                      const std::string& format) {
  if (!fs::exists(on.run())) {
    auto all = on.simulate(short_run);
    check_end(all, 0);
  }
  fs::remove(on.home() / name); // An export replaces no file.
  run_to_end(
    on, "export",
    {"checkpoint", "export", "run", "--format", format, "--out", name});
}

json evaluate(process_fixture& on, const flags& options) {
  auto folder = on.home() / "scores";
  fs::remove_all(folder);
  run_to_end(on, "evaluate",
             flags{"--evaluate", "--seed", "3", "--threads", "1", "--train-dir",
                   "scores"} +
               options);
  return read_summary(folder);
}

proto::Manifest manifest_in(const fs::path& checkpoint) {
  proto::Manifest out;
  out.ParseFromString(slurp(checkpoint / "manifest.pb"));
  return out;
}

} // namespace

TEST_CASE("exported weights are those of the run, and score as it did") {
  process_fixture on;
  for (const auto* format : {"safetensors", "pt"}) {
    train_and_export(on, "weights", format);
    auto run = on.summary();
    for (const auto& what :
         {flags{"--init", "weights"}, flags{"--resume", "run"},
          flags{"--resume", "run/checkpoints/step-00000008"}}) {
      auto found = evaluate(on, what);
      CHECK(found["status"] == "completed");
      CHECK(found["weights_sha256"] == run["weights_sha256"]);
      CHECK(found["final_accuracy"] == run["final_accuracy"]);
      CHECK(std::abs(found["final_loss"].get<double>() -
                     run["final_loss"].get<double>()) < 1e-6);
    }
  }
}

TEST_CASE("a run that begins with weights scores them first") {
  process_fixture on;
  train_and_export(on, "weights.pt", "pt");
  auto before = on.summary();
  auto said = run_to_end(on, "simulate",
                         short_run + flags{"--simulate", "--train-dir", "more",
                                           "--init", "weights.pt", "--tape"});
  CHECK(said.find("init         weights.pt: 8 of 8 tensors, SHA-256 ") !=
        std::string::npos);
  auto metrics = read_metrics(on.home() / "more");
  auto first = std::ranges::find_if(metrics, is_kind("evaluation"));
  REQUIRE(first != metrics.end());
  CHECK((*first)["step"] == 0);
  CHECK((*first)["accuracy"] == before["final_accuracy"]);
  auto manifest = manifest_in(on.home() / "more/checkpoints/step-00000008");
  CHECK(manifest.description().init().file() == "weights.pt");
  CHECK(manifest.description().init().sha256().size() == 64);
  SECTION("and is replayed bit by bit") {
    run_to_end(on, "replay",
               {"--replay", "more/tape-1.pb", "--train-dir", "again"});
    CHECK(read_summary(on.home() / "again")["weights_sha256"] ==
          read_summary(on.home() / "more")["weights_sha256"]);
  }
  SECTION("and goes on with the same file, or without it, but not another") {
    auto resume = [&](const flags& more, int status) {
      return run_to_end(
        on, "resume",
        flags{"--simulate", "--train-dir", "more", "--resume"} + more, status);
    };
    resume({"--init", "weights.pt", "--max-steps", "10"}, 0);
    fs::rename(on.home() / "weights.pt", on.home() / "elsewhere.pt");
    resume({"--init", "weights.pt", "--max-steps", "11"}, 0);
    resume({"--max-steps", "12"}, 0);
    CHECK(manifest_in(on.home() / "more/checkpoints/step-00000012")
            .description()
            .init()
            .file() == "weights.pt");
    train_and_export(on, "other.safetensors", "safetensors");
    auto line = resume({"--init", "other.safetensors", "--max-steps", "14"}, 2);
    CHECK(line.find("the run began with weights.pt") != std::string::npos);
  }
}

TEST_CASE("the average that a run kept is scored, too") {
  process_fixture on;
  auto all = on.simulate(short_run + flags{"--ema-decay", "0.5"});
  check_end(all, 0);
  auto run = on.summary()["final_metrics"];
  REQUIRE(run.contains("ema/loss"));
  CHECK(run["ema/loss"] != run["loss"]);
  auto found = evaluate(on, {"--resume", "run"})["final_metrics"];
  CHECK(found.size() == run.size());
  for (const auto& [name, value] : run.items())
    CHECK(std::abs(found[name].get<double>() - value.get<double>()) < 1e-6);
}

TEST_CASE("scores may overwrite others, but not what is scored") {
  process_fixture on;
  train_and_export(on, "weights.pt", "pt");
  flags all{"--evaluate", "--resume", "run",         "--seed",     "3",
            "--threads",  "1",        "--overwrite", "--train-dir"};
  run_to_end(on, "evaluate", all + flags{"scores"});
  run_to_end(on, "evaluate", all + flags{"scores"});
  CHECK(read_summary(on.home() / "scores")["steps"] == 8);
  auto line = run_to_end(on, "evaluate", all + flags{"run"}, 2);
  CHECK(line.find("holds what is to be scored") != std::string::npos);
  CHECK(fs::exists(on.run() / "checkpoints/step-00000008"));
}

TEST_CASE("a cluster of processes with shards begins with weights, too") {
  process_fixture on;
  train_and_export(on, "weights.safetensors", "safetensors");
  auto before = on.summary();
  fs::remove_all(on.run());
  auto all = flags{"--workers", "1", "--seed", "3", "--max-steps", "6"};
  auto server =
    on.listening_server(all + flags{"--init", "weights.safetensors", "--shards",
                                    "2", "--rank", "0"});
  auto shard = on.shard(1, {});
  auto evaluator = on.evaluator({});
  on.await(server, "the first score", is_kind("evaluation"));
  auto worker = on.worker({});
  check_end(server, 0);
  auto metrics = on.metrics();
  auto first = std::ranges::find_if(metrics, is_kind("evaluation"));
  CHECK((*first)["step"] == 0);
  CHECK((*first)["accuracy"] == before["final_accuracy"]);
  check_end(worker, 0);
  check_end(shard, 0);
  check_end(evaluator, 0);
}

TEST_CASE("a run goes on from its best version") {
  process_fixture on;
  // The run learns nothing, so all scores are equal, and the first is the best.
  auto all = flags{"--simulate", "--train-dir", "run",     "--workers",
                   "1",          "--lr",        "1e-12",   "--eval-freq",
                   "2",          "--clock",     "virtual", "--checkpoint-freq",
                   "5",          "--keep",      "1"};
  run_to_end(on, "weights", all + flags{"--max-steps", "12"});
  CHECK(on.summary()["best_step"] == 2);
  CHECK(checkpoints_of(on.run()) == std::vector<std::string>{"step-00000012"});
  auto resume = flags{"--simulate", "--train-dir", "run", "--resume", "best"};
  auto line = run_to_end(on, "none", resume, 1);
  CHECK(
    line.find("the best weights are of step 2, and there is no checkpoint") !=
    std::string::npos);
  run_to_end(
    on, "full",
    all + flags{"--max-steps", "12", "--keep-best", "full", "--overwrite"});
  CHECK(checkpoints_of(on.run()) ==
        std::vector<std::string>{"step-00000002", "step-00000012"});
  run_to_end(on, "best", resume + flags{"--max-steps", "6"});
  auto metrics = on.metrics();
  auto resumed = std::ranges::find_if(metrics, is_kind("resumed"));
  REQUIRE(resumed != metrics.end());
  CHECK((*resumed)["step"] == 2);
  CHECK(on.summary()["steps"] == 6);
}

TEST_CASE("what is skipped begins as usual") {
  process_fixture on;
  train_and_export(on, "weights.pt", "pt");
  auto all = flags{"--simulate", "--train-dir", "skip",         "--init",
                   "weights.pt", "--init-skip", "fc?.*,conv1.*"};
  auto said = run_to_end(on, "skip", short_run + all);
  CHECK(said.find("init         drawn, not from the file: conv1.weight, "
                  "conv1.bias, fc1.weight") != std::string::npos);
  auto line =
    run_to_end(on, "idle",
               short_run + flags{"--simulate", "--train-dir", "idle", "--init",
                                 "weights.pt", "--init-skip", "fc9.*"},
               2);
  CHECK(line.find("--init-skip fc9.*: matches no tensor") != std::string::npos);
}

TEST_CASE("checkpoints are listed, shown and verified") {
  process_fixture on;
  train_and_export(on, "weights.pt", "pt");
  auto list = run_to_end(on, "list", {"checkpoint", "list", "run"});
  CHECK(list.find("step-00000004") < list.find("step-00000008"));
  CHECK(list.find("accuracy") != std::string::npos);
  CHECK(list.find("best ") != std::string::npos);
  auto show = run_to_end(on, "show", {"checkpoint", "show", "run"});
  CHECK(show.find("step           8, ") != std::string::npos);
  CHECK(show.find("network        lenet") != std::string::npos);
  auto good = run_to_end(on, "good", {"checkpoint", "verify", "run"});
  CHECK(std::ranges::count(good, '\n') == 3);
  // The newest is damaged: the user is told, and the one before is exported.
  auto model = on.run() / "checkpoints/step-00000008/model.safetensors";
  auto bytes = slurp(model);
  bytes[bytes.size() / 2] ^= 1;
  spill(model, bytes);
  auto damaged = on.start("damaged", {"checkpoint", "verify", "run"});
  check_end(damaged, 1);
  CHECK(damaged.said("damaged .*step-00000008 cannot be used: the checksum of "
                     "model.safetensors does not match"));
  CHECK(damaged.said("good .*step-00000004"));
  auto said = run_to_end(
    on, "export", {"checkpoint", "export", "--format", "safetensors", "run"});
  CHECK(said.find("skipped ") != std::string::npos);
  CHECK(fs::exists(on.home() / "lenet-step-00000004.safetensors"));
  run_to_end(on, "best",
             {"checkpoint", "export", "--format", "pt", "--best", "run"});
  CHECK(fs::exists(on.home() / "lenet-best.pt"));
}

TEST_CASE("what is wrong with weights is one line, and nothing is lost") {
  process_fixture on;
  train_and_export(on, "weights.pt", "pt");
  spill(on.home() / "text", "no weights");
  spill(
    on.home() / "code.pt",
    torch_file(
      whole_pickle("cos\nsystem\n(" + pickled_text("touch hit") + "tR"), {}));
  auto before = files_below(on.run());
  auto refused = [&](const flags& options, int status,
                     const std::string& line) {
    auto said = run_to_end(on, "refused", options, status);
    INFO(said);
    CHECK(said.starts_with("trainer_node: "));
    CHECK(std::ranges::count(said, '\n') == 1);
    CHECK(said.find(line) != std::string::npos);
  };
  auto init = [](const std::string& file) {
    return flags{"--simulate", "--train-dir", "new", "--init", file};
  };
  refused(init("none.pt"), 1, "none.pt: No such file");
  refused(init("text"), 1, "text: is neither a safetensors file nor one of");
  refused(init("code.pt"), 1, "code.pt: holds an object of os.system");
  refused(init("weights.pt") + flags{"--network", "mnist_net"}, 1,
          "weights.pt: tensor conv1.weight is 20x1x5x5, and that of mnist_net");
  refused({"--simulate", "--init-skip", "fc*"}, 2, "--init-skip fc*: needs");
  refused({"--simulate", "--init", "weights.pt", "--init-skip", "a,,b"}, 2,
          "has an empty pattern");
  refused({"--evaluate"}, 2, "--evaluate needs weights");
  refused({"--evaluate", "--init", "weights.pt", "--resume", "run"}, 2,
          "either --init FILE or --resume PATH");
  refused({"--evaluate", "--resume", "auto"}, 2, "needs the PATH");
  refused({"--evaluate", "--init", "weights.pt", "--role", "ps"}, 2,
          "leave --role out");
  refused({"--evaluate", "--resume", "run", "--train-dir", "run"}, 2,
          "holds what is to be scored");
  refused({"--evaluate", "--resume", "none"}, 2, "none: no such folder");
  refused({"checkpoint"}, 2, "needs to be told what to do");
  refused({"checkpoint", "export", "run"}, 2, "needs --format");
  refused({"checkpoint", "export", "run", "--format", "zip"}, 2,
          "--format zip");
  refused({"checkpoint", "export", "run", "--format", "pt", "--best=yes"}, 2,
          "--best takes no value");
  refused({"checkpoint", "list", "none"}, 1, "none: no such file or folder");
  refused({"checkpoint", "show", "."}, 1, "holds no checkpoint");
  refused({"checkpoint", "export", "run", "--format", "pt", "--out", "x/y"}, 1,
          "x/y");
  CHECK(files_below(on.run()) == before);
  CHECK_FALSE(fs::exists(on.home() / "hit"));
  CHECK_FALSE(fs::exists(on.home() / "new/config.ini"));
}
