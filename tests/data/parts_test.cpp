// Nodes that train need no test files, and nodes that evaluate no training
// files.

#include "config/text/failure.hpp"
#include "data/dataset.hpp"
#include "tests/data/image_files.hpp"
#include "tests/support/error_line.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

using namespace troupe;
using namespace troupe::data;
using namespace troupe::test;

namespace {

/// Writes the files of one part, of so many samples.
using writer = void (*)(scratch_folder&, bool train, uint32_t count);

struct kind {
  const char* dataset;
  writer write;
  /// Whether the files for training say how many classes there are.
  bool classes_in_train = false;
};

void write_idx(scratch_folder& to, bool train, uint32_t count) {
  std::string stem = train ? "train" : "t10k";
  to.write(stem + "-images-idx3-ubyte",
           images_file(count, 28, 28, bytes(size_t{count} * 28 * 28)));
  to.write(stem + "-labels-idx1-ubyte", labels_file(count, bytes(count, 3)));
}

void write_cifar(scratch_folder& to, bool train, uint32_t count) {
  bytes all;
  for (uint32_t i = 0; i < count; ++i)
    all = all + cifar_record({3}, 1);
  to.write(train ? "data_batch_1.bin" : "test_batch.bin", all);
}

void write_folder(scratch_folder& to, bool train, uint32_t count) {
  for (uint32_t i = 0; i < count; ++i)
    to.write(std::string{train ? "train" : "val"} + "/cat/" +
               std::to_string(i) + ".png",
             png_file(4, 4, 3, slopes(4, 4, 3)));
}

void write_tar(scratch_folder& to, bool train, uint32_t count) {
  std::vector<bytes> members;
  for (uint32_t i = 0; i < count; ++i) {
    auto stem = std::to_string(i);
    members.push_back(member(stem + ".png", slopes(4, 4, 3)));
    members.push_back(member(stem + ".cls", text(train ? "4" : "1")));
  }
  to.write(train ? "train.tar" : "val.tar", tar_file(members));
}

dataset_pair load(const kind& type, const scratch_folder& from,
                  data_part wanted) {
  config::data_settings settings;
  settings.dataset = type.dataset;
  settings.data_dir = from.path();
  settings.image_size = 8;
  return load_dataset(settings, 1, wanted);
}

kind any_kind() {
  return GENERATE(kind{"mnist", write_idx}, kind{"cifar10", write_cifar},
                  kind{"folder", write_folder, true},
                  kind{"tar", write_tar, true});
}

} // namespace

TEST_CASE("a part is loaded without the files of the other", "[parts]") {
  auto what = any_kind();
  auto train = GENERATE(true, false);
  INFO(what.dataset << (train ? ", train" : ", test"));
  scratch_folder in;
  if (train || what.classes_in_train)
    what.write(in, true, 3);
  if (!train)
    what.write(in, false, 2);
  auto some = load(what, in, train ? data_part::train : data_part::test);
  CHECK((some.train != nullptr) == train);
  CHECK((some.test != nullptr) == !train);
  CHECK((train ? some.train : some.test)->size() == (train ? 3 : 2));
}

TEST_CASE("a part alone is what it is beside the other", "[parts]") {
  auto what = any_kind();
  INFO(what.dataset);
  scratch_folder in;
  what.write(in, true, 3);
  what.write(in, false, 2);
  auto both = load(what, in, data_part::both);
  auto train = load(what, in, data_part::train).train;
  auto test = load(what, in, data_part::test).test;
  CHECK(train->digest() == both.train->digest());
  CHECK(test->digest() == both.test->digest());
  CHECK(train->classes() == both.train->classes());
  CHECK(test->classes() == both.train->classes());
  CHECK(test->shape() == both.test->shape());
}

TEST_CASE("the digits and what is made up come in parts, too", "[parts]") {
  config::data_settings settings;
  settings.dataset =
    GENERATE("digits", "synthetic(shape=1x4x4,classes=3,samples=20)");
  auto both = load_dataset(settings, 7);
  auto train = load_dataset(settings, 7, data_part::train);
  auto test = load_dataset(settings, 7, data_part::test);
  CHECK(train.test == nullptr);
  CHECK(test.train == nullptr);
  CHECK(train.train->digest() == both.train->digest());
  CHECK(test.test->digest() == both.test->digest());
}
