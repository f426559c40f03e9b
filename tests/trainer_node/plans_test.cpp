// What a process knows before it starts its first actor.

#include "apps/trainer_node/participant_plan.hpp"
#include "apps/trainer_node/server_plan.hpp"
#include "config/text/failure.hpp"
#include "tests/support/temporary_folder.hpp"

#include <catch2/catch_test_macros.hpp>

#include <filesystem>

using namespace troupe;
using namespace troupe::app;

namespace {

namespace fs = std::filesystem;

void say_nothing(const std::string&) {
  // nop
}

struct planned {
  planned() {
    auto& all = config.values;
    all.what = config::role::simulate;
    all.training.network = "lenet";
    all.training.train_dir = (folder.path() / "run").string();
    all.data.dataset = "synthetic(shape=1x28x28,classes=10,samples=500)";
    all.policy.name = "async";
    all.cluster.workers = 3;
  }

  server_plan plan() {
    auto data = load_data(config.values, say_nothing);
    require_shards(config, data);
    return plan_server(config, data, find_origin(config.values, say_nothing),
                       say_nothing);
  }

  testing::temporary_folder folder;
  config::resolved config;
};

} // namespace

TEST_CASE("a server's plan says what it starts with, and writes nothing") {
  planned on;
  auto plan = on.plan();
  CHECK(to_string(plan) ==
        "lenet of 431080 numbers, on "
        "synthetic(shape=1x28x28,classes=10,samples=500) by async with 3 "
        "workers and 1 "
        "shards; life 1 from step 0 in " +
          (on.folder.path() / "run").string());
  CHECK(plan.parts.life() == life_number{1});
  CHECK(plan.parts.description.run_id == plan.from.run_id);
  CHECK(plan.parts.remote_shards() == 0);
  CHECK_FALSE(plan.parts.from.resumed);
  CHECK_FALSE(plan.complete);
  CHECK_FALSE(fs::exists(on.folder.path() / "run" / "config.ini"));
  SECTION("until the run begins") {
    begin(plan, say_nothing);
    CHECK(fs::exists(on.folder.path() / "run" / "config.ini"));
    CHECK(plan.from.claim);
  }
}

TEST_CASE("a server of more shards than there are pages has no plan") {
  planned on;
  on.config.values.cluster.shards = 1'000;
  CHECK_THROWS_AS(on.plan(), usage_error);
  CHECK_FALSE(fs::exists(on.folder.path() / "run"));
}

TEST_CASE("a run that its user stops does not begin") {
  planned on;
  auto plan = on.plan();
  CHECK_FALSE(end_before_begin(plan, {}, say_nothing));
  auto how = end_before_begin(
    plan, [] { return true; }, say_nothing);
  REQUIRE(how);
  CHECK(how->status == static_cast<uint8_t>(exit_status::try_again));
  plan.complete = "10 steps are made";
  std::string said;
  how =
    end_before_begin(plan, {}, [&](const std::string& line) { said = line; });
  REQUIRE(how);
  CHECK(how->status == 0);
  CHECK(said == "complete     10 steps are made before; raise the limit to go "
                "on");
}

TEST_CASE("a worker's plan says for whom it looks, and who computes") {
  config::settings all;
  all.what = config::role::worker;
  all.cluster.host = "10.0.0.1";
  all.cluster.port = 4242;
  all.cluster.rank = 2;
  CHECK(to_string(plan_participant(all, {})) ==
        "worker 2 for 10.0.0.1:4242; tensors by auto");
  all.cluster.join = true;
  auto joins = plan_participant(all, {});
  CHECK(joins.follows);
  CHECK(joins.awaits_score);
  CHECK(to_string(joins) ==
        "worker 2 for 10.0.0.1:4242; tensors by auto; follows its lead");
  all.what = config::role::evaluator;
  all.cluster.rank = std::nullopt;
  all.cluster.join = false;
  CHECK(to_string(plan_participant(all, {})) ==
        "evaluator for 10.0.0.1:4242; tensors by auto; follows its lead");
}
