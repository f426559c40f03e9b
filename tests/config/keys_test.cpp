#include "config/schema/keys.hpp"
#include "config/text/text.hpp"
#include "tests/config/samples.hpp"
#include "tests/config/support.hpp"

#include <catch2/catch_test_macros.hpp>

#include <set>

using namespace troupe::config;
using namespace troupe::config::test;

TEST_CASE("every key has a sample that differs from its default", "[keys]") {
  std::set<std::string> ids;
  for (const auto& each : all_keys()) {
    INFO(each.id());
    ids.insert(each.id());
    REQUIRE(samples().contains(each.id()));
    auto sample = samples().at(each.id());
    auto is_only_choice = each.value == sample;
    CHECK((is_only_choice || sample != each.default_text()));
  }
  CHECK(ids.size() == samples().size());
}

TEST_CASE("ids, flags and variables of keys are unique", "[keys]") {
  std::set<std::string> ids, flags, variables;
  for (const auto& each : all_keys()) {
    CHECK(ids.insert(each.id()).second);
    CHECK(flags.insert(each.flag).second);
    CHECK(variables.insert(each.variable()).second);
  }
}

TEST_CASE("a flag has its key's name, but for the policy", "[keys]") {
  for (const auto& each : all_keys())
    CHECK(each.flag == (each.id() == "policy.name" ? "policy" : each.name));
}

TEST_CASE("keys can be found by all their names", "[keys]") {
  const auto& batch = key_of("training.batch-size");
  CHECK(batch.variable() == "TROUPE_TRAINING_BATCH_SIZE");
  CHECK(find_key("training", "batch-size") == &batch);
  CHECK(find_flag("batch-size") == &batch);
  CHECK(find_variable("TROUPE_TRAINING_BATCH_SIZE") == &batch);
  CHECK(find_key("data", "batch-size") == nullptr);
  CHECK_THROWS_AS(key_of("data.batch-size"), std::out_of_range);
}

TEST_CASE("the default of every key reads back", "[keys]") {
  for (const auto& each : all_keys()) {
    settings all;
    each.set(all, each.default_text());
    CHECK(all == settings{});
  }
}

TEST_CASE("an unset key is set and unset by text", "[keys]") {
  settings all;
  const auto& steps = key_of("training.max-steps");
  steps.set(all, "12");
  CHECK(all.training.max_steps == 12);
  steps.set(all, "");
  CHECK(all == settings{});
}

TEST_CASE("every key round-trips by file, environment, flag and --set",
          "[keys]") {
  scratch folder;
  for (const auto& each : all_keys()) {
    INFO(each.id());
    auto sample = samples().at(each.id());
    auto file = folder.write("one.ini", "[" + each.section + "]\n" + each.name +
                                          " = " + sample + " ; why\n");
    auto by_file = resolved_from({"--config", file});
    auto by_variable = resolved_from({}, {{each.variable(), sample}});
    auto by_flag = resolved_from({"--" + each.flag, sample});
    auto by_equals = resolved_from({"--" + each.flag + "=" + sample});
    auto by_set = resolved_from({"--set", each.id() + "=" + sample});
    CHECK(each.get(by_file.values) == sample);
    CHECK(by_file.values == by_variable.values);
    CHECK(by_file.values == by_flag.values);
    CHECK(by_file.values == by_equals.values);
    CHECK(by_file.values == by_set.values);
    CHECK(by_file.origin_of(each.id()).to_string() == file + ":2");
    CHECK(by_variable.origin_of(each.id()).to_string() ==
          "environment " + each.variable());
    CHECK(by_flag.origin_of(each.id()).to_string() == "flag --" + each.flag);
    CHECK(by_set.origin_of(each.id()).to_string() == "flag --set");
  }
}

TEST_CASE("a setting has one spelling, however and wherever it was given",
          "[keys]") {
  struct {
    const char* id;
    const char* typed;
    const char* kept;
  } table[] = {{"policy.name", "bsp", "sync"},
               {"policy.name", "ASP", "async"},
               {"training.network", "ResNet18", "resnet18"},
               {"training.network", "LeNet", "lenet"},
               {"training.network", "MNIST-Net", "mnist_net"},
               {"training.network", "script:Net.pt", "script:Net.pt"},
               {"training.optimizer", "AdamW", "adamw"},
               {"training.lr-schedule", "Cosine(min=0)", "cosine(min=0)"},
               {"training.dtype", "FP32", "float32"},
               {"training.device", "CPU", "cpu"},
               {"data.dataset", "CIFAR-10", "cifar10"},
               {"data.dataset", "FashionMNIST", "fashion-mnist"},
               {"data.dataset", "EMNIST-Letters", "emnist-letters"},
               {"data.dataset", "tar(train=A.tar,val=B.tar)",
                "tar(train=A.tar,val=B.tar)"},
               {"data.augment", "Crop+Flip", "crop+flip"},
               {"cluster.compression", "TopK(share=0.1)", "topk(share=0.1)"},
               {"cluster.transport", "NCCL", "nccl"}};
  scratch folder;
  for (const auto& [id, typed, kept] : table) {
    INFO(id << " = " << typed);
    const auto& each = key_of(id);
    auto file = folder.write("one.ini", "[" + each.section + "]\n" + each.name +
                                          " = " + typed + "\n");
    for (const auto& all : {resolved_from({"--config", file}),
                            resolved_from({}, {{each.variable(), typed}}),
                            resolved_from({"--" + each.flag, typed})})
      CHECK(each.get(all.values) == kept);
  }
}

TEST_CASE("the nearest word is found, a far one is not", "[keys]") {
  std::vector<std::string> words{"batch-size", "lr", "momentum", "workers"};
  CHECK(nearest("batchsize", words) == "batch-size");
  CHECK(nearest("Batch_Size", words) == "batch-size");
  CHECK(nearest("momentmu", words) == "momentum");
  CHECK(nearest("--worker", words) == "workers");
  CHECK(nearest("rl", words) == "lr");
  CHECK(nearest("learning-rate", words) == std::nullopt);
  CHECK(nearest("x", words) == std::nullopt);
  CHECK(nearest("", words) == std::nullopt);
}

TEST_CASE("who misspells a key is told the right one", "[keys]") {
  auto told = [](const char* section, const char* name) {
    return complaint([&] { named_key("a.ini:7", section, name); });
  };
  CHECK(told("training", "batchsize") ==
        "a.ini:7: unknown key 'batchsize' in [training]; did you mean "
        "'batch-size'?");
  CHECK(told("training", "staleness") ==
        "a.ini:7: 'staleness' belongs in [policy], not in [training]");
  CHECK(told("", "lr") == "a.ini:7: 'lr' belongs in [training]");
  CHECK(told("trainning", "foo") ==
        "a.ini:7: unknown section [trainning]; did you mean 'training'?");
  CHECK(told("policy", "policy") ==
        "a.ini:7: unknown key 'policy' in [policy]; did you mean 'name'?");
  CHECK(told("policy", "colour") ==
        "a.ini:7: unknown key 'colour' in [policy]");
  CHECK(told("policy", "name") == "");
}
