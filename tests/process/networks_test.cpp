// Networks with buffers and dropout through the whole program: checkpoints,
// resumes, replays, the virtual clock, several processes.

#include "models/storage/safetensors.hpp"
#include "tests/process/process_fixture.hpp"

#include <catch2/catch_test_macros.hpp>

#include <cstring>

using namespace troupe::testing;
using troupe::models::read_safetensors;

namespace {

constexpr std::chrono::seconds whole_run{240};

/// Small enough for a test, with all that is special about it.
const flags small{"--network",    "resnet20",
                  "--dataset",    "synthetic(shape=3x8x8,classes=4,samples=96)",
                  "--batch-size", "8",
                  "--threads",    "1"};

const flags virtual_clock{"--clock", "virtual"};

std::string model_in(const std::filesystem::path& run, const char* checkpoint) {
  auto out = slurp(run / "checkpoints" / checkpoint / "model.safetensors");
  REQUIRE(!out.empty());
  return out;
}

/// Simulates into a folder of that name.
std::filesystem::path simulate(process_fixture& on, const std::string& name,
                               const flags& all) {
  auto run = on.home() / name;
  auto who =
    on.start(name, flags{"--simulate", "--train-dir", run.string()} + all);
  check_end(who, 0, whole_run);
  return run;
}

double number_of(const troupe::models::tensor_file& file,
                 const std::string& key) {
  const auto* found = file.find(key);
  REQUIRE(found != nullptr);
  REQUIRE(found->dtype == "F32");
  float out = 0;
  std::memcpy(&out, found->bytes.data(), sizeof out);
  return out;
}

} // namespace

TEST_CASE("a checkpoint has the buffers under torchvision's names") {
  process_fixture on;
  auto run =
    simulate(on, "run", small + flags{"--max-steps", "6"} + virtual_clock);
  auto file = read_safetensors(run / "checkpoints" / "step-00000006" /
                               "model.safetensors");
  // Of 20 layers 19 are normalised, with five tensors each.
  CHECK(file.tensors().size() == 19 + 19 * 5 + 2);
  const auto* counter = file.find("layer1.0.bn1.num_batches_tracked");
  REQUIRE(counter != nullptr);
  CHECK(counter->dtype == "I64");
  CHECK(counter->shape.empty());
  int64_t batches = 0;
  std::memcpy(&batches, counter->bytes.data(), sizeof batches);
  CHECK(batches == 6);
  CHECK(number_of(file, "bn1.running_mean") != 0);
  CHECK(number_of(file, "bn1.running_var") > 0);
}

TEST_CASE("a run that is resumed goes on with the same bits") {
  process_fixture on;
  auto all = virtual_clock + flags{"--workers", "1", "--checkpoint-freq", "4"};
  for (const auto& network :
       {small, flags{"--network", "mnist_net", "--threads", "1"}}) {
    auto name = network[1];
    auto whole =
      simulate(on, name + "-whole", network + all + flags{"--max-steps", "8"});
    auto parts =
      simulate(on, name + "-parts", network + all + flags{"--max-steps", "4"});
    simulate(on, name + "-parts",
             network + all + flags{"--max-steps", "8", "--resume"});
    CHECK(model_in(parts, "step-00000008") == model_in(whole, "step-00000008"));
  }
}

TEST_CASE(
  "each rule for buffers is reproducible and leaves the weights alone") {
  process_fixture on;
  std::vector<std::string> models;
  for (const auto* rule : {"average", "first", "local"}) {
    auto all = small + virtual_clock +
               flags{"--workers", "3", "--max-steps", "6", "--buffers", rule};
    auto one = simulate(on, std::string{rule} + "-1", all);
    auto two = simulate(on, std::string{rule} + "-2", all);
    models.push_back(model_in(one, "step-00000006"));
    CHECK(models.back() == model_in(two, "step-00000006"));
    // The rules change only the statistics: forward in training normalises with
    // the batch alone.
    CHECK(read_summary(one)["weights_sha256"] ==
          read_summary(on.home() / "average-1")["weights_sha256"]);
  }
  CHECK(models[0] != models[1]); // `local` may differ in the last bits only.
}

TEST_CASE("an event log gives weights and statistics again, bit by bit") {
  for (const auto& more : {small + flags{"--buffers", "average"},
                           small + flags{"--buffers", "first"},
                           small + flags{"--buffers", "local"},
                           flags{"--network", "mnist_net", "--threads", "1"}}) {
    process_fixture on;
    auto run = simulate(on, "run",
                        more + flags{"--policy", "async", "--workers", "3",
                                     "--max-steps", "12", "--tape"});
    auto again = on.home() / "again";
    auto who = on.start("replay", {"--replay", (run / "tape-1.pb").string(),
                                   "--train-dir", again.string()});
    check_end(who, 0, whole_run);
    CHECK(who.said("replay       [0-9]+ events, all as in the event log"));
    CHECK(model_in(again, "step-00000012") == model_in(run, "step-00000012"));
    CHECK(read_summary(again)["final_loss"] == read_summary(run)["final_loss"]);
  }
}

TEST_CASE("a residual network trains across processes, and resumes") {
  process_fixture on;
  auto all = small + flags{"--workers", "2",           "--checkpoint-freq",
                           "10",        "--eval-freq", "10"};
  for (const auto& more :
       {flags{"--max-steps", "20"}, flags{"--max-steps", "60", "--resume"}}) {
    auto server = on.listening_server(all + more);
    auto evaluator = on.evaluator();
    auto one = on.worker();
    auto other = on.worker();
    check_end(server, 0, whole_run);
    check_end(evaluator, 0);
    check_end(one, 0);
    check_end(other, 0);
  }
  CHECK(on.summary()["steps"] == 60);
  CHECK(on.summary()["final_accuracy"].get<double>() > 0.9);
  CHECK(committed_of(on.metrics()).resumes == 1);
}
