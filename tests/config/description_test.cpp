#include "config/runs/description.hpp"
#include "tests/config/samples.hpp"
#include "tests/config/support.hpp"

#include <catch2/catch_test_macros.hpp>

#include <set>

using namespace troupe;
using namespace troupe::config;
using namespace troupe::config::test;

namespace {

run_description described() {
  run_description out;
  out.run_id = "r";
  out.life = 3;
  out.settings = shared_settings(settings{});
  out.data = {
    "digits", 10, {1, 28, 28}, data_part{1437, 11, 12}, data_part{360, 21, 22}};
  out.network_sha256 = "ab";
  out.init = {"w.pt", "ef", "fc.*"};
  return out;
}

void set(run_description& in, const std::string& id, const std::string& value) {
  for (auto& [key, text] : in.settings)
    if (key == id)
      text = value;
}

std::vector<std::string> found(const run_description& run,
                               const run_description& here,
                               relation how = relation::resume) {
  std::vector<std::string> out;
  for (const auto& one : differences(run, here, how))
    out.push_back(to_string(one));
  return out;
}

} // namespace

TEST_CASE("a run differs from itself in nothing, whatever its life",
          "[description]") {
  auto later = described();
  later.life = 4;
  later.run_id = "s"; // A caller to whom it matters asks for it.
  CHECK(differences(described(), later, relation::resume).empty());
  CHECK(differences(described(), later, relation::join).empty());
}

TEST_CASE("every setting of the cluster counts but for those that are free",
          "[description]") {
  const std::set<std::string> free{
    "cluster.run-id",  "cluster.workers",     "cluster.shards",
    "training.epochs", "training.max-steps",  "training.target-accuracy",
    "training.target", "evaluation.eval-freq"};
  for (const auto& key : all_keys()) {
    if (key.where != scope::cluster)
      continue;
    INFO(key.id());
    auto here = described();
    set(here, key.id(), samples().at(key.id()));
    CHECK(differences(described(), here, relation::resume).empty() ==
          free.contains(key.id()));
  }
}

TEST_CASE("workers are free only where they share the data out",
          "[description]") {
  auto run = described(), here = described();
  set(here, "cluster.workers", "2");
  for (const auto* sharding : {"static", "local"}) {
    set(run, "data.sharding", sharding);
    set(here, "data.sharding", sharding);
    CHECK(found(run, here) ==
          std::vector<std::string>{"[cluster] workers: 4 there, 2 here"});
    CHECK(found(run, here, relation::join).empty());
  }
}

TEST_CASE("the batch of a worker is free where that of all is given",
          "[description]") {
  auto run = described(), here = described();
  set(here, "training.batch-size", "32");
  CHECK(found(run, here).size() == 1);
  set(run, "training.global-batch-size", "128");
  set(here, "training.global-batch-size", "128");
  CHECK(found(run, here).empty());
  CHECK(found(run, here, relation::join).size() == 1);
}

TEST_CASE("a script is what its file holds, wherever it lies",
          "[description]") {
  auto run = described(), here = described();
  set(run, "training.network", "script:a.pt");
  set(here, "training.network", "script:other/b.pt");
  CHECK(found(run, here).empty());
  here.network_sha256 = "cd";
  CHECK(found(run, here) ==
        std::vector<std::string>{
          "SHA-256 of the network's file: ab there, cd here"});
}

TEST_CASE("a run began with what its file held, whatever it is called",
          "[description]") {
  auto run = described(), here = described();
  here.init.file = "elsewhere.pt";
  CHECK(found(run, here).empty());
  here.init.sha256 = "gh";
  CHECK(found(run, here) ==
        std::vector<std::string>{
          "SHA-256 of the file of the first weights: ef there, gh here"});
}

TEST_CASE("everything known of the data is compared", "[description]") {
  auto check = [](auto change, const std::string& line) {
    auto here = described();
    change(here.data);
    CHECK(found(described(), here) == std::vector<std::string>{line});
  };
  using data = data_description;
  check([](data& x) { x.name = "mnist"; },
        "data set: digits there, mnist here");
  check([](data& x) { x.classes = 5; }, "classes: 10 there, 5 here");
  check([](data& x) { x.shape[2] = 30; },
        "width of a sample: 28 there, 30 here");
  check([](data& x) { x.train->samples = 1000; },
        "training samples: 1437 there, 1000 here");
  check([](data& x) { x.train->labels = 13; },
        "digest of the labels of the training samples: 000000000000000b "
        "there, 000000000000000d here");
  check([](data& x) { x.test->content = 16; },
        "digest of the test data: 0000000000000016 there, 0000000000000010 "
        "here");
}

TEST_CASE("what one side does not know does not differ", "[description]") {
  run_description nothing;
  CHECK(differences(described(), nothing, relation::resume).empty());
  CHECK(differences(nothing, described(), relation::resume).empty());
  auto here = described();
  here.data.train.reset();
  here.data.test = data_part{360, 0, 0};
  CHECK(found(described(), here).empty());
}
