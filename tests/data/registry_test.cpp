#include "config/schema/known_names.hpp"
#include "config/text/failure.hpp"
#include "config/text/text.hpp"
#include "data/formats/registry.hpp"
#include "tests/support/error_line.hpp"

#include <catch2/catch_test_macros.hpp>

#include <cctype>

using namespace troupe;
using namespace troupe::data;
using namespace troupe::test;

TEST_CASE("settings know the data sets of the registry", "[registry]") {
  std::vector<std::string> names;
  for (const auto& each : dataset_registry())
    names.push_back(each.name);
  auto known = config::known_datasets();
  CHECK(names == std::vector<std::string>(known.begin(), known.end()));
}

TEST_CASE("no two data sets have names that could be mixed up", "[registry]") {
  for (const auto& name : config::known_datasets()) {
    std::string capitals;
    for (char c : name)
      capitals += static_cast<char>(std::toupper(c));
    INFO(name);
    CHECK(config::spelt(capitals, config::known_datasets()) == name);
  }
}

TEST_CASE("sets with files need a data-dir, others do not", "[registry]") {
  for (const auto& each : dataset_registry()) {
    INFO(each.name);
    CHECK(config::reads_files(each.name) == !each.files.empty());
    config::parse_augmentation(each.training);
  }
}

TEST_CASE("a declaration belongs to its entry", "[registry]") {
  CHECK(entry_of("synthetic(shape=1x2x3)").name == "synthetic");
  CHECK(entry_of("tar(train=a,val=b)").name == "tar");
  CHECK(error_line<usage_error>([] { entry_of("tarr"); }) ==
        "unknown data set 'tarr'; --list-datasets shows all");
}

TEST_CASE("what cannot be resized to a square is refused", "[registry]") {
  config::data_settings settings;
  settings.dataset = "synthetic(shape=3x4x6,classes=2,samples=8)";
  settings.augment = "resized-crop";
  CHECK(error_line<usage_error>([&] { load_dataset(settings, 1); }) ==
        "--augment resized-crop: the images of " + settings.dataset +
          " are not square");
}
