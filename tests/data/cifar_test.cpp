#include "config/text/failure.hpp"
#include "data/dataset.hpp"
#include "data/formats/cifar.hpp"
#include "data/formats/registry.hpp"
#include "tests/data/image_files.hpp"
#include "tests/support/error_line.hpp"

#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

using namespace troupe;
using namespace troupe::data;
using namespace troupe::test;
using Catch::Matchers::ContainsSubstring;

namespace {

dataset_pair load_set(const scratch_folder& in, const char* name) {
  config::data_settings settings;
  settings.dataset = name;
  settings.data_dir = in.path();
  settings.augment = "none";
  return load_dataset(settings, 1);
}

std::string parse_complaint(const bytes& file, uint32_t label_bytes = 1) {
  memory_store::parts out{"x", {3, 32, 32}, 10, {}, {}};
  return error_line<run_error>(
    [&] { parse_cifar(file, label_bytes, "x", out); });
}

} // namespace

TEST_CASE("CIFAR-10's batches are read in order", "[cifar]") {
  scratch_folder in;
  in.write("cifar-10-batches-bin/data_batch_1.bin",
           cifar_record({3}, 10) + cifar_record({9}, 20));
  in.write("cifar-10-batches-bin/data_batch_2.bin", cifar_record({0}, 30));
  in.write("cifar-10-batches-bin/test_batch.bin", cifar_record({5}, 40));
  auto pair = load_set(in, "cifar10");
  CHECK(pair.train->size() == 3);
  CHECK(pair.test->size() == 1);
  CHECK(pair.train->shape() == std::vector<int64_t>{3, 32, 32});
  auto all = pair.train->gather_range(0, 3, config::scalar_type::float32);
  const auto* labels = all.targets.const_data_ptr<int64_t>();
  CHECK(std::vector<int64_t>(labels, labels + 3) ==
        std::vector<int64_t>{3, 9, 0});
  const auto* x = all.inputs.const_data_ptr<float>();
  CHECK(x[0] == Catch::Approx((10 / 255.0 - 0.4914) / 0.2470));
  CHECK(x[2048] ==
        Catch::Approx((10 + 2048 % 31) / 255.0 / 0.2616 - 0.4465 / 0.2616));
}

TEST_CASE("a gap between CIFAR-10's batches is refused", "[cifar]") {
  scratch_folder in;
  in.write("data_batch_1.bin", cifar_record({3}, 10));
  in.write("data_batch_3.bin", cifar_record({3}, 10));
  in.write("test_batch.bin", cifar_record({5}, 40));
  CHECK(error_line<run_error>([&] { load_set(in, "cifar10"); }) ==
        "cifar10: " + (in.path() / "data_batch_3.bin").string() +
          " is there, but no data_batch_2.bin before it");
}

TEST_CASE("of CIFAR-100's two labels the second counts", "[cifar]") {
  scratch_folder in;
  in.write("train.bin", cifar_record({19, 99}, 1));
  in.write("test.bin", cifar_record({0, 42}, 1));
  auto pair = load_set(in, "cifar100");
  CHECK(pair.train->classes() == 100);
  auto label = pair.test->gather_range(0, 1, config::scalar_type::float32);
  CHECK(label.targets.const_data_ptr<int64_t>()[0] == 42);
}

TEST_CASE("damaged CIFAR files are refused with their place", "[cifar]") {
  auto two = cifar_record({3}, 1) + cifar_record({10}, 1);
  CHECK(parse_complaint(two) == "x: at byte 3073: label 10 is not in 0 to 9");
  two.resize(4000);
  CHECK(parse_complaint(two) ==
        "x: at byte 3073: the file is cut off: 4000 bytes "
        "are not a number of records of 3073");
  CHECK_THAT(parse_complaint({}),
             ContainsSubstring("at byte 0: the file is cut "));
  CHECK(parse_complaint(cifar_record({0, 10}, 1), 2) ==
        "x: at byte 1: label 10 is not in 0 to 9");
}

TEST_CASE("an absent CIFAR file is named with its folders", "[cifar]") {
  scratch_folder in;
  auto line = error_line<run_error>([&] { load_set(in, "cifar10"); });
  CHECK(line == "cifar10: no file data_batch_1.bin in " + in.path().string() +
                  " or " + (in.path() / "cifar-10-batches-bin").string());
}

TEST_CASE("CIFAR's version for Python is refused with what to do", "[cifar]") {
  scratch_folder in;
  in.write("cifar-10-batches-py/batches.meta", text("x"));
  in.write("cifar-10-batches-py/data_batch_1", text("x"));
  in.write("hundred/meta", text("x"));
  in.write("hundred/train", text("x"));
  auto here = in.path().string();
  CHECK(error_line<run_error>([&] { load_set(in, "cifar10"); }) ==
        "cifar10: " + here +
          "/cifar-10-batches-py holds the version for Python, which is not "
          "read; trainer_node data fetch cifar10 --data-dir " +
          here + " gets the binary version");
  config::data_settings settings;
  settings.dataset = "cifar100";
  settings.data_dir = here + "/hundred";
  CHECK_THAT(error_line<run_error>([&] { load_dataset(settings, 1); }),
             ContainsSubstring("/hundred holds the version for Python"));
}

TEST_CASE("all damaged CIFAR files are found at once", "[cifar]") {
  scratch_folder in;
  in.write("data_batch_1.bin", cifar_record({3}, 1) + cifar_record({77}, 1));
  in.write("data_batch_2.bin", cifar_record({4}, 1));
  in.write("data_batch_3.bin", bytes(4000));
  in.write("test_batch.bin", bytes(1));
  config::data_settings settings;
  settings.dataset = "cifar10";
  settings.data_dir = in.path();
  damage_list damage;
  auto found = entry_of("cifar10").inspect(settings, damage);
  CHECK(found.train.store->size() == 1);
  CHECK(found.train.store->label(0) == 4);
  CHECK(found.test.store->size() == 0);
  CHECK(damage.size() == 3);
}
