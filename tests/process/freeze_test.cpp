// Runs of which a part is not trained (`--freeze`), over real links and under
// the virtual clock.

#include "models/storage/safetensors.hpp"
#include "tests/process/process_fixture.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <map>
#include <string>
#include <vector>

using namespace troupe::testing;

namespace fs = std::filesystem;

namespace {

/// LeNet has 431,080 parameters; without the first fully connected layer and
/// the convolutions there are 5,010.
const flags head_alone{"--freeze", "conv?.*,fc1.*"};
constexpr double parameters = 431'080;
constexpr double parameters_of_head = 5'010;

const flags short_run{"--workers", "1", "--max-steps", "8",
                      "--threads", "1", "--seed",      "3"};

void run_to_end(process_fixture& on, const flags& options) {
  auto who = on.start("node", options);
  check_end(who, 0);
}

/// The bytes of each tensor of a file.
std::map<std::string, std::vector<std::byte>> tensors_of(const fs::path& file) {
  auto all = troupe::models::read_safetensors(file);
  std::map<std::string, std::vector<std::byte>> out;
  for (const auto& each : all.tensors())
    out[each.name] = {each.bytes.begin(), each.bytes.end()};
  return out;
}

/// Checks that these files have the same body and another head.
void check_head_alone_differs(const fs::path& one, const fs::path& other) {
  auto before = tensors_of(one), after = tensors_of(other);
  REQUIRE(before.size() == 8);
  REQUIRE(after.size() == 8);
  for (const auto& [key, bytes] : before) {
    INFO(key);
    CHECK((bytes == after[key]) == !key.starts_with("fc2."));
  }
}

fs::path model_of(const fs::path& run, const std::string& checkpoint) {
  return run / "checkpoints" / checkpoint / "model.safetensors";
}

} // namespace

TEST_CASE("workers get what is frozen once, and train the rest") {
  auto transport = GENERATE("shm", "stream", "chunked");
  auto shards = GENERATE(1, 2);
  INFO(transport << ", " << shards << " shards");
  process_fixture on;
  run_to_end(on, flags{"--simulate", "--train-dir", "body"} + short_run);
  auto body = model_of(on.home() / "body", "step-00000008");
  flags over{"--transport", transport, "--threads", "1"};
  auto server = on.listening_server(
    flags{"--workers", "2", "--max-steps", "30", "--lr", "0.01", "--shards",
          std::to_string(shards), "--init", body.string()} +
    head_alone + over + (shards > 1 ? flags{"--rank", "0"} : flags{}));
  std::vector<child> others;
  if (shards > 1)
    others.push_back(on.shard(1, flags{"--threads", "1"}));
  others.push_back(on.evaluator(over));
  others.push_back(on.worker(over));
  others.push_back(on.worker(over));
  check_end(server, 0);
  for (auto& one : others)
    check_end(one, 0);
  for (size_t i = others.size() - 3; i < others.size(); ++i)
    CHECK(
      others[i].said("frozen       1.7 MB of weights that are not trained"));
  check_head_alone_differs(body, model_of(on.run(), "step-00000030"));
  auto summary = on.summary();
  CHECK(summary["steps"] == 30);
  // It has learned: eight steps of the whole network know little.
  CHECK(summary["final_accuracy"] > 0.6);
  auto optimizer = tensors_of(on.run() / "checkpoints" / "step-00000030" /
                              "optimizer.safetensors");
  CHECK(optimizer.size() == 2);
}

TEST_CASE("a push has as many bytes as what is trained") {
  process_fixture on;
  // Links so slow that a step takes as long as its bytes.
  auto seconds_of = [&](const flags& more) {
    run_to_end(on,
               flags{"--simulate", "--train-dir", "run", "--overwrite",
                     "--clock", "virtual", "--compute-time", "constant(0.001)",
                     "--link-rate", "1e4", "--evaluator", "false"} +
                 short_run + more);
    return on.summary()["virtual_seconds"].get<double>();
  };
  auto ratio = seconds_of({}) / seconds_of(head_alone);
  CHECK(ratio > 0.95 * parameters / parameters_of_head);
  CHECK(ratio < 1.05 * parameters / parameters_of_head);
}

TEST_CASE("a run with a frozen part goes on, and is replayed, bit for bit") {
  process_fixture on;
  auto all = flags{"--simulate",        "--clock", "virtual",     "--tape",
                   "--checkpoint-freq", "4",       "--eval-freq", "4"} +
             short_run + head_alone;
  run_to_end(on, all + flags{"--train-dir", "whole"});
  auto whole = read_summary(on.home() / "whole");
  run_to_end(on, all + flags{"--train-dir", "run", "--max-steps", "4"});
  check_head_alone_differs(model_of(on.run(), "step-00000004"),
                           model_of(on.home() / "whole", "step-00000008"));
  run_to_end(on, {"--simulate", "--clock", "virtual", "--threads", "1",
                  "--train-dir", "run", "--resume", "--max-steps", "8"});
  CHECK(on.summary()["state_sha256"] == whole["state_sha256"]);
  CHECK(on.summary()["weights_sha256"] == whole["weights_sha256"]);
  run_to_end(on, {"--replay", "whole/tape-1.pb", "--train-dir", "replayed"});
  CHECK(read_summary(on.home() / "replayed")["state_sha256"] ==
        whole["state_sha256"]);
  // Those who look from outside see the same weights.
  run_to_end(on, {"--evaluate", "--resume", "whole", "--seed", "3", "--threads",
                  "1", "--train-dir", "scores"});
  auto score = read_summary(on.home() / "scores");
  CHECK(score["final_accuracy"] == whole["final_accuracy"]);
  CHECK(score["weights_sha256"] == whole["weights_sha256"]);
  auto follower = on.start(
    "follower", {"--role", "evaluator", "--follow", "whole", "--threads", "1"});
  check_end(follower, 0);
  char accuracy[32];
  std::snprintf(accuracy, sizeof accuracy, "accuracy %.2f",
                100 * whole["final_accuracy"].get<double>());
  CHECK(follower.out().find(accuracy) != std::string::npos);
}

TEST_CASE("what cannot be frozen is refused with a line") {
  process_fixture on;
  auto refused = [&](const flags& options, const std::string& why) {
    auto node = on.start("node", flags{"--simulate"} + short_run + options);
    check_end(node, 2);
    CHECK(node.err().find(why) != std::string::npos);
    CHECK(std::ranges::count(node.err(), '\n') == 1);
    CHECK_FALSE(fs::exists(on.run()));
  };
  flags here{"--train-dir", "run"};
  refused(here + flags{"--freeze", "body.*"},
          "--freeze body.*: matches no tensor of the network");
  refused({"--check", "--freeze", "body.*"},
          "--freeze body.*: matches no tensor of the network");
  refused(here + flags{"--freeze", "*"},
          "--freeze *: leaves no parameter to train");
  refused(here + flags{"--freeze", "conv1.*,"}, "freeze");
  refused(here + flags{"--freeze", "conv1.*", "--clock", "virtual",
                       "--gradients", "none"},
          "means nothing with --gradients none");
  run_to_end(on, flags{"--simulate"} + short_run + here + head_alone);
  auto other = on.start("node", {"--simulate", "--train-dir", "run", "--resume",
                                 "--max-steps", "9", "--freeze", "conv?.*"});
  check_end(other, 2);
  CHECK(other.err().find("or begin another run in another train-dir") !=
        std::string::npos);
}
