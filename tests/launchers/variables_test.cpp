// `--role auto` with the variables of launchers that cannot be installed here,
// as they set them: processes of a whole cluster.

#include "tests/process/hosts_file.hpp"
#include "tests/process/process_fixture.hpp"

#include <catch2/catch_test_macros.hpp>

using namespace troupe::testing;

namespace {

using variables = std::map<std::string, std::string>;

child start(process_fixture& on, const variables& environment,
            const flags& more = {}) {
  child_options how;
  how.environment = environment;
  return on.start(
    "node",
    flags{"--role", "auto", "--epochs", "1", "--train-dir", on.run().string()} +
      more,
    how);
}

} // namespace

TEST_CASE("scheduler, servers and workers of ps-lite are a cluster") {
  process_fixture on;
  std::vector<child> all;
  auto add = [&](const std::string& role, const variables& own) {
    variables environment{{"DMLC_ROLE", role},
                          {"DMLC_NUM_WORKER", "2"},
                          {"DMLC_NUM_SERVER", "2"},
                          {"DMLC_PS_ROOT_URI", "127.0.0.1"},
                          {"DMLC_PS_ROOT_PORT", on.port()}};
    environment.insert(own.begin(), own.end());
    all.push_back(start(on, environment));
  };
  add("scheduler", {});
  for (auto number : {"0", "1"}) {
    add("server", {{"DMLC_SERVER_ID", number}});
    add("worker", {});
  }
  check_ends_of(all, 0);
  CHECK(on.summary()["workers"] == 2);
  CHECK(on.summary()["shards"] == 3);
}

TEST_CASE("pods of an Indexed Job meet at the name of the first") {
  process_fixture on;
  hosts_file names{on.home(), "127.0.0.1 localhost\n127.0.0.7 lenet-0.lenet\n"};
  std::vector<child> all;
  for (auto index : {"1", "2", "0"})
    all.push_back(start(on,
                        {{"JOB_COMPLETION_INDEX", index},
                         {"TROUPE_CLUSTER_WORKERS", "2"},
                         {"TROUPE_CLUSTER_HOST", "lenet-0.lenet"},
                         {"TROUPE_CLUSTER_PORT", on.port()}},
                        {"--insecure-network"}));
  check_ends_of(all, 0);
  CHECK(all[1].said("role         worker 1, rank 2 of 3: from "
                    "JOB_COMPLETION_INDEX=2, TROUPE_CLUSTER_WORKERS=2; dials "
                    "lenet-0.lenet:"));
  CHECK(on.summary()["workers"] == 2);
}
