// What the survey of a data set tells is what loading it finds.

#include "config/text/failure.hpp"
#include "data/dataset.hpp"
#include "data/formats/survey.hpp"
#include "tests/data/image_files.hpp"
#include "tests/support/error_line.hpp"

#include <catch2/catch_test_macros.hpp>

using namespace troupe;
using namespace troupe::data;
using namespace troupe::test;

namespace {

config::data_settings settings_of(const std::string& name,
                                  const std::filesystem::path& folder = {}) {
  config::data_settings out;
  out.dataset = name;
  out.data_dir = folder.string();
  return out;
}

/// Everything but what a survey leaves open agrees with the loaded set.
dataset_survey check_survey(const config::data_settings& settings) {
  auto found = survey_dataset(settings);
  auto loaded = load_dataset(settings, 1);
  INFO(settings.dataset);
  CHECK(found.name == loaded.train->name());
  CHECK(std::vector<int64_t>(found.shape.begin(), found.shape.end()) ==
        loaded.train->shape());
  CHECK(found.classes.value_or(loaded.train->classes()) ==
        loaded.train->classes());
  CHECK(found.train.value_or(loaded.train->size()) == loaded.train->size());
  CHECK(found.test.value_or(loaded.test->size()) == loaded.test->size());
  return found;
}

std::string survey_complaint(const config::data_settings& settings) {
  return error_line<run_error>([&] { survey_dataset(settings); });
}

const bytes image = png_file(2, 2, 1, {1, 2, 3, 4});

} // namespace

TEST_CASE("sets without files are surveyed", "[survey]") {
  auto digits = check_survey(settings_of("digits"));
  CHECK(digits.train == 1437);
  CHECK(digits.resident == 1797 * 785);
  for (const auto* samples : {"1", "4", "5", "23"})
    CHECK(check_survey(settings_of("synthetic(shape=3x8x8,classes=2,samples=" +
                                   std::string{samples} + ")"))
            .train == std::stoull(samples));
}

TEST_CASE("IDX files are surveyed by their headers, packed ones too",
          "[survey]") {
  scratch_folder folder;
  write_mnist(folder.path() / "plain", 30, 0);
  auto plain = check_survey(settings_of("mnist", folder.path() / "plain"));
  CHECK(plain.train == 30);
  CHECK(plain.test == 1);
  CHECK(plain.classes == 10);
  CHECK(plain.resident == 31 * 785);
  for (const std::string part : {"train", "t10k"}) {
    folder.write("packed/" + part + "-images-idx3-ubyte.gz",
                 gzip(images_file(2, 28, 28, bytes(2 * 784, 7))));
    folder.write("packed/" + part + "-labels-idx1-ubyte.gz",
                 gzip(labels_file(2, {1, 2})));
  }
  CHECK(check_survey(settings_of("mnist", folder.path() / "packed")).train ==
        2);
}

TEST_CASE("no sample is read for a survey", "[survey]") {
  scratch_folder folder;
  // The headers promise what is not there, and images are none.
  for (const std::string part : {"train", "t10k"}) {
    folder.write("mnist/" + part + "-images-idx3-ubyte",
                 images_file(9, 28, 28, {}));
    folder.write("mnist/" + part + "-labels-idx1-ubyte", labels_file(9, {}));
  }
  for (const std::string part : {"train", "val"}) {
    folder.write("folder/" + part + "/a/1.png", text("no image"));
    folder.write("folder/" + part + "/b/1.png", text("no image"));
    folder.write("tar/" + part + "-0.tar", text("no tar"));
  }
  CHECK(survey_dataset(settings_of("mnist", folder.path() / "mnist")).train ==
        9);
  CHECK(
    survey_dataset(settings_of("folder", folder.path() / "folder")).classes ==
    2);
  CHECK(survey_dataset(settings_of("tar", folder.path() / "tar")).classes ==
        std::nullopt);
}

TEST_CASE("CIFAR's files are surveyed by their sizes", "[survey]") {
  scratch_folder folder;
  folder.write("data_batch_1.bin", cifar_record({3}, 1) + cifar_record({4}, 1));
  folder.write("data_batch_2.bin", cifar_record({3}, 1));
  folder.write("test_batch.bin", cifar_record({3}, 1));
  folder.write("train.bin", cifar_record({0, 3}, 1));
  folder.write("test.bin", cifar_record({0, 3}, 1));
  CHECK(check_survey(settings_of("cifar10", folder.path())).train == 3);
  CHECK(check_survey(settings_of("cifar100", folder.path())).train == 1);
}

TEST_CASE("of folders the classes are counted, of shards nothing", "[survey]") {
  scratch_folder folder;
  for (const std::string part : {"train", "val"}) {
    folder.write("images/" + part + "/a/1.png", image);
    folder.write("images/" + part + "/b/1.png", image);
    folder.write(
      "shards/" + part + ".tar",
      tar_file({member("1.png", image), member("1.cls", text("1"))}));
  }
  auto images = check_survey(settings_of("folder", folder.path() / "images"));
  CHECK(images.classes == 2);
  CHECK(images.train == std::nullopt);
  CHECK(images.resident == 0);
  CHECK(images.shape == std::array<int64_t, 3>{3, 224, 224});
  auto shards = check_survey(settings_of("tar", folder.path() / "shards"));
  CHECK(shards.classes == std::nullopt);
}

TEST_CASE("a survey says when files are absent or cannot be", "[survey]") {
  scratch_folder folder;
  auto here = folder.path();
  CHECK(survey_complaint(settings_of("mnist", here))
          .starts_with("mnist: no file "));
  CHECK(survey_complaint(settings_of("cifar10", here))
          .starts_with("cifar10: no file data_batch_1.bin in "));
  CHECK(
    survey_complaint(settings_of("folder", here)).find("train: is no folder") !=
    std::string::npos);
  CHECK(survey_complaint(settings_of("tar", here)).find("has no train*.tar") !=
        std::string::npos);
  CHECK(survey_complaint(settings_of("tar(train=a.tar,val=b.tar)", here))
          .find("a.tar: there is no such shard") != std::string::npos);
  folder.write("train/a/1.png", image);
  CHECK(survey_complaint(settings_of("folder", here))
          .find("has neither a folder val nor test") != std::string::npos);
  folder.write("data_batch_1.bin", bytes(4000));
  folder.write("test_batch.bin", cifar_record({3}, 1));
  CHECK(survey_complaint(settings_of("cifar10", here))
          .find("at byte 3073: the file is cut off: 4000 bytes") !=
        std::string::npos);
  folder.write("train-images-idx3-ubyte", images_file(3, 28, 28, {}));
  folder.write("train-labels-idx1-ubyte", labels_file(4, {}));
  CHECK(
    survey_complaint(settings_of("mnist", here)).find("has 3 images, but ") !=
    std::string::npos);
  folder.write("train-images-idx3-ubyte", text("abc"));
  CHECK(survey_complaint(settings_of("mnist", here))
          .find("not an IDX file of images") != std::string::npos);
  CHECK(error_line<usage_error>([] { survey_dataset(settings_of("mnist")); }) ==
        "the data set mnist needs --data-dir, the folder of its files");
}
