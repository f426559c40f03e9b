#include "messages/run_record.hpp"

#include <catch2/catch_test_macros.hpp>

#include <algorithm>

using namespace troupe;

TEST_CASE("the description of a run comes through its bytes") {
  config::run_description all;
  all.run_id = "ab";
  all.life = 3;
  all.settings = {{"training.lr", "0.5"}, {"training.clip-norm", ""}};
  all.data = {"digits",
              10,
              {1, 28, 27},
              config::data_part{1437, UINT64_MAX, 12},
              config::data_part{360, 21, 22}};
  all.network_sha256 = "cd";
  all.init = {"w.pt", "ef", "fc.*"};
  all.changes = {{100, 2, "training.lr", "", "0.5"}};
  proto::RunDescription out, copy;
  put(all, out);
  REQUIRE(copy.ParseFromString(out.SerializeAsString()));
  CHECK(description_of(copy) == all);
  all.data.train.reset();
  proto::Manifest manifest;
  put(all, *manifest.mutable_description());
  CHECK(description_of(manifest) == all);
}

TEST_CASE("a checkpoint of release 0.1.0 is described by its configuration") {
  proto::Manifest manifest;
  manifest.set_run_id("ab");
  manifest.set_ps_incarnation(2);
  manifest.set_dataset("digits");
  manifest.set_classes(10);
  manifest.mutable_ledger()->set_samples(1437);
  manifest.set_config_ini("[training]\nseed = 3\n[policy]\nname = ssp\n");
  auto found = description_of(manifest);
  CHECK(found.run_id == "ab");
  CHECK(found.life == 2);
  CHECK(found.data.name == "digits");
  CHECK(found.data.train == config::data_part{1437, 0, 0});
  auto has = [&](const std::string& key, const std::string& value) {
    return std::ranges::find(found.settings,
                             std::pair<std::string, std::string>{key, value}) !=
           found.settings.end();
  };
  CHECK(has("training.seed", "3"));
  CHECK(has("policy.name", "ssp"));
  CHECK(has("training.batch-size", "64"));
}
