#include "config/commands/help.hpp"
#include "config/report/plan.hpp"
#include "config/report/report.hpp"
#include "config/sources/ini.hpp"
#include "tests/config/samples.hpp"
#include "tests/config/support.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <fstream>
#include <random>

using namespace troupe::config;
using namespace troupe::config::test;
using Catch::Matchers::ContainsSubstring;

namespace {

settings read_back(const std::string& text) {
  scratch folder;
  return resolve(from_file(folder.write("config.ini", text))).values;
}

/// Without what belongs to one start only.
settings lasting(settings all) {
  all.training.resume.reset();
  all.training.overwrite = false;
  all.cluster.log_format = log_form::plain;
  return all;
}

/// A path with everything that an INI file could take for its own.
std::string odd_path(std::mt19937& random) {
  const std::string alphabet = "ab/ ;#\"\\=[]',().\xc3\xa4";
  std::string result;
  for (auto n = 1 + random() % 12; n > 0; --n)
    result += alphabet[random() % alphabet.size()];
  return result;
}

std::string plan_of(const std::string& line) {
  return plan(parse(split("--check " + line)).config);
}

} // namespace

TEST_CASE("config.ini reads back to the same settings", "[report]") {
  CHECK(read_back(to_ini(resolved_from({}).values)) ==
        resolved_from({}).values);
  for (const auto& [id, sample] : samples()) {
    INFO(id);
    auto all = resolved_from({"--" + key_of(id).flag, sample}).values;
    CHECK(read_back(to_ini(all)) == lasting(all));
  }
}

TEST_CASE("any mix of settings reads back", "[report][property]") {
  std::mt19937 random{42};
  for (int round = 0; round < 200; ++round) {
    std::vector<std::string> arguments;
    for (const auto& [id, sample] : samples())
      if (random() % 2 == 0)
        arguments.push_back("--" + key_of(id).flag + "=" + sample);
    arguments.push_back("--train-dir=" + odd_path(random));
    arguments.push_back("--data-dir=" + odd_path(random));
    arguments.push_back("--lr=" + std::to_string(1 + random() % 1000) + "e-" +
                        std::to_string(random() % 9));
    auto all = resolved_from(arguments).values;
    auto text = to_ini(all);
    INFO(text);
    REQUIRE(read_back(text) == lasting(all));
  }
}

TEST_CASE("config.ini does not say how a run was started", "[report]") {
  auto all = resolved_from(split("--overwrite --resume x")).values;
  CHECK(to_ini(all).find("overwrite") == std::string::npos);
  CHECK(to_ini(all).find("resume") == std::string::npos);
}

TEST_CASE("print-config shows every key, value and origin", "[report]") {
  auto all = resolved_from(split("--lr 0.5"), {{"TROUPE_DATA_DATA_DIR", "x"}});
  auto text = print_config(all);
  for (const auto& each : all_keys())
    CHECK_THAT(text, ContainsSubstring(each.name));
  CHECK_THAT(text, ContainsSubstring("lr = 0.5    "));
  CHECK_THAT(text, ContainsSubstring("; flag --lr\n"));
  CHECK_THAT(text, ContainsSubstring("; environment TROUPE_DATA_DATA_DIR\n"));
  CHECK_THAT(text, ContainsSubstring("; rank is not set"));
  CHECK(read_back(text) == all.values);
}

TEST_CASE("help lists every key with its default", "[help]") {
  auto text = help();
  for (const auto& each : all_keys()) {
    INFO(each.id());
    auto at = text.find("  --" + each.flag);
    REQUIRE(at != std::string::npos);
    auto end = text.find("\n  --", at + 1);
    auto by_default = each.default_text();
    if (!by_default.empty() && by_default != "false")
      CHECK_THAT(text.substr(at, end - at),
                 ContainsSubstring("(default: " + by_default + ")"));
  }
  for (const auto& section : all_sections())
    CHECK_THAT(text, ContainsSubstring("\n[" + section + "]\n"));
  for (auto flag : {"--simulate", "--role", "--config", "--set",
                    "--print-config", "--check", "--version", "--help"})
    CHECK_THAT(text, ContainsSubstring(std::string{"  "} + flag));
}

TEST_CASE("the devices that are offered are those that are accepted",
          "[help]") {
  std::ifstream file{std::string{TROUPE_EXAMPLES} + "/cluster.ini"};
  std::string example{std::istreambuf_iterator<char>{file}, {}};
  REQUIRE_THAT(example, ContainsSubstring("device = cpu"));
  CHECK_THAT(help(), ContainsSubstring("cuda:N"));
  for (const auto* device : {"cpu", "cuda", "cuda:1", "auto"})
    CHECK(parse(split(std::string{"--simulate --device "} + device))
            .config.values.training.device == device);
  CHECK(complaint([] { parse(split("--simulate --device gpu")); }) ==
        "--device gpu: must be cpu, cuda, cuda:N with N up to 15, or auto");
}

TEST_CASE("help fits 80 columns", "[help]") {
  std::istringstream lines{help()};
  for (std::string line; std::getline(lines, line);) {
    INFO(line);
    CHECK(line.size() <= 80);
    CHECK(line.find('\x1f') == std::string::npos);
  }
}

TEST_CASE("the plan says who waits for whom and what a step is", "[plan]") {
  CHECK_THAT(plan_of("--simulate"),
             ContainsSubstring("sync: a step waits for 4 workers\n") &&
               ContainsSubstring("64 samples per worker, 256 per step\n") &&
               ContainsSubstring("4 workers, evaluator, checkpoint writer\n") &&
               ContainsSubstring("(default)\n") &&
               ContainsSubstring("runs/lenet-<n>, new\n"));
  CHECK_THAT(plan_of("--policy backup --late cancel"),
             ContainsSubstring("the first 3 gradients of 4; late ones are "
                               "cancelled\n") &&
               ContainsSubstring("192 per step\n"));
  CHECK_THAT(plan_of("--policy ssp --staleness 1"),
             ContainsSubstring("at most 1 clock ahead") &&
               ContainsSubstring("64 per step\n"));
  CHECK_THAT(plan_of("--policy async"), ContainsSubstring("nobody waits\n"));
}

TEST_CASE("the plan shows addresses, limits and bytes", "[plan]") {
  CHECK_THAT(plan_of("--role ps --host ::1"),
             ContainsSubstring("[::1]:4242\n"));
  CHECK_THAT(plan_of("--simulate"), !ContainsSubstring("4242"));
  CHECK_THAT(plan_of("--max-steps 1 --target-accuracy 0.9"),
             ContainsSubstring("1 step or accuracy 0.9, what is first\n"));
  auto all = parse(split("--check --simulate")).config;
  CHECK_THAT(plan(all, model_size{431080, 0, {}}),
             ContainsSubstring("1.7 MB of gradients out, 1.7 MB of weights"));
  all.values.training.dtype = scalar_type::float64;
  CHECK_THAT(plan(all, model_size{431080, 0, {}}),
             ContainsSubstring("3.4 MB of gradients out") &&
               !ContainsSubstring("shards"));
  CHECK_THAT(plan(all, model_size{2000, 0, {8192, 7808}}),
             ContainsSubstring("2 of 7.8 kB to 8.2 kB of weights each"));
}

TEST_CASE("the plan shows samples, classes and the memory of each role",
          "[plan]") {
  auto shown = [](const std::string& line, const data_size& data) {
    model_size model{1'000'000, 0, {}};
    model.classes = 1000;
    model.data = data;
    return plan(parse(split("--check " + line)).config, model);
  };
  data_size known{10, 60000, 10000, 784, 54'960'000};
  CHECK_THAT(
    shown("--role ps --workers 4 --keep-best false", known),
    ContainsSubstring("60000 samples for training, 10000 for testing; 10 "
                      "classes\n") &&
      ContainsSubstring("memory      the parameter server 103.0 MB at most: "
                        "versions of the weights 8.0 MB, optimiser 4.0 MB, "
                        "gradients 16.0 MB, evaluation 4.0 MB, checkpoints "
                        "16.0 MB, data set 55.0 MB\n") &&
      ContainsSubstring("a worker 71.4 MB at most besides forward and "
                        "backward: weights 8.0 MB, gradients 8.0 MB, batches "
                        "402.4 kB, data set 55.0 MB\n") &&
      ContainsSubstring("the evaluator 63.8 MB at most besides forward and "
                        "backward: weights 8.0 MB, batches 804.9 kB, "));
  CHECK_THAT(shown("--simulate --policy async --workers 2 --evaluator false "
                   "--optimizer adam --compression int8",
                   known),
             ContainsSubstring(
               "memory      this process 127.8 MB at most besides forward and "
               "backward: versions of the weights 16.0 MB, optimiser 8.0 MB, "
               "gradients 8.0 MB, checkpoints 24.0 MB, data set 55.0 MB, "
               "batches 804.9 kB, error feedback 16.0 MB\n") &&
               !ContainsSubstring("the evaluator "));
  CHECK_THAT(shown("--simulate", {2, {}, {}, 150'528, 0}),
             ContainsSubstring("samples are not counted here; 2 classes\n") &&
               !ContainsSubstring("data set "));
  CHECK_THAT(shown("--simulate", {{}, {}, {}, 150'528, 0}),
             ContainsSubstring("samples are not counted here, nor classes: "
                               "sizes are those for 1000\n"));
  CHECK_THAT(
    shown("--simulate --clock virtual --gradients none --max-steps 9", known),
    !ContainsSubstring("memory"));
}

TEST_CASE("an average takes a slot, and its copy for the evaluator", "[plan]") {
  model_size model{1'000'000, 0, {}};
  CHECK_THAT(
    plan(parse(split("--check --role ps --ema-decay 0.9")).config, model),
    ContainsSubstring("optimiser 8.0 MB, ") &&
      ContainsSubstring("evaluation 12.0 MB, "));
}

TEST_CASE("each further replica has a gradient of its own", "[plan]") {
  model_size model{1'000'000, 0, {}};
  auto shown = [&](const std::string& line) {
    return plan(parse(split("--check --replicas 3 " + line)).config, model);
  };
  CHECK_THAT(
    shown("--role ps --workers 4"),
    ContainsSubstring("64 samples per worker, divided among 3 replicas, ") &&
      ContainsSubstring("forward and backward: weights 8.0 MB, gradients 16.0 "
                        "MB\n"));
  CHECK_THAT(shown("--simulate --workers 2"),
             ContainsSubstring("gradients of replicas 16.0 MB"));
}

TEST_CASE("shards in processes of their own share the memory", "[plan]") {
  model_size model{1'000'000, 0, {1'000'000, 1'500'000, 1'500'000}};
  auto all =
    parse(split("--check --role ps --rank 0 --shards 3 --workers 2")).config;
  CHECK_THAT(
    plan(all, model),
    ContainsSubstring("the lead 29.0 MB at most: versions of the "
                      "weights 2.0 MB, optimiser 1.0 MB, gradients "
                      "2.0 MB, evaluation 8.0 MB, checkpoints 16.0 "
                      "MB\n") &&
      ContainsSubstring("another shard 7.5 MB at most: versions of the "
                        "weights 3.0 MB, optimiser 1.5 MB, gradients "
                        "3.0 MB\n"));
}

TEST_CASE("a worker has no memory for parameters that are with servers, and "
          "servers have two contexts for each",
          "[plan]") {
  model_size model{1'000'000, 500, {}};
  model.with_servers = 750'000;
  auto all = parse(split("--check --role ps --mode remote-forward --workers 4 "
                         "--evaluator false"))
               .config;
  CHECK_THAT(plan(all, model),
             ContainsSubstring("gradients 32.0 MB") &&
               ContainsSubstring("a worker 4.0 MB at most besides forward "
                                 "and backward: weights 2.0 MB, gradients "
                                 "2.0 MB\n"));
}

TEST_CASE("the example files are valid", "[examples]") {
  const std::string folder = TROUPE_EXAMPLES;
  auto cluster = folder + "/cluster.ini";
  for (auto role : {"ps", "worker", "evaluator"}) {
    auto all = parse({"--role", role, "--config", cluster}).config.values;
    CHECK(all.policy.name == "ssp");
    CHECK(all.training.train_dir == "runs/lenet");
    CHECK(all.training.epochs == 50);
  }
  auto all = parse({"--simulate", "--config", folder + "/simulate.ini"});
  CHECK(all.config.values.policy.name == "backup");
  CHECK(all.config.values.training.target_accuracy == 0.97);
}
