#include "config/text/failure.hpp"
#include "data/dataset.hpp"
#include "tests/data/idx_files.hpp"
#include "tests/support/error_line.hpp"

#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

using namespace troupe;
using namespace troupe::data;
using namespace troupe::test;

using Catch::Matchers::ContainsSubstring;

namespace {

constexpr uint32_t side = 28;

bytes gray_images(uint32_t count, uint8_t value) {
  return images_file(count, side, side, bytes(count * side * side, value));
}

/// A set of 3 + 2 samples. `name(stem, kind)` is where a file goes.
template <class F>
void write_set(scratch_folder& to, F name, bool packed = false) {
  auto put = [&](const char* stem, const char* kind, const bytes& content) {
    to.write(name(stem, kind), packed ? gzip(content) : content);
  };
  put("train-images", "idx3-ubyte", gray_images(3, 255));
  put("train-labels", "idx1-ubyte", labels_file(3, {7, 8, 9}));
  put("t10k-images", "idx3-ubyte", gray_images(2, 0));
  put("t10k-labels", "idx1-ubyte", labels_file(2, {0, 1}));
}

std::string with_dash(std::string stem, std::string kind) {
  return stem + "-" + kind;
}

dataset_pair load_named(const std::string& name, const scratch_folder& folder) {
  return load_dataset({.dataset = name, .data_dir = folder.path()}, 1);
}

void check_loads(const std::string& name, const scratch_folder& folder) {
  auto pair = load_named(name, folder);
  CHECK(pair.train->size() == 3);
  CHECK(pair.test->size() == 2);
  CHECK(pair.train->shape() == std::vector<int64_t>{1, side, side});
  CHECK(pair.train->classes() == 10);
}

} // namespace

TEST_CASE("the usual layouts of MNIST are found", "[idx-dataset]") {
  scratch_folder folder;
  SECTION("files as published") {
    write_set(folder, with_dash);
  }
  SECTION("compressed files") {
    write_set(
      folder, [](auto a, auto b) { return with_dash(a, b) + ".gz"; }, true);
  }
  SECTION("names with a dot") {
    write_set(folder, [](std::string a, auto b) { return a + "." + b; });
  }
  SECTION("a folder raw") {
    write_set(folder, [](auto a, auto b) { return "raw/" + with_dash(a, b); });
  }
  SECTION("torchvision's folders") {
    write_set(folder,
              [](auto a, auto b) { return "MNIST/raw/" + with_dash(a, b); });
  }
  check_loads("mnist", folder);
}

TEST_CASE("Fashion-MNIST has its own folder", "[idx-dataset]") {
  scratch_folder folder;
  write_set(folder, [](auto a, auto b) {
    return "FashionMNIST/raw/" + with_dash(a, b);
  });
  check_loads("fashion-mnist", folder);
  CHECK_THROWS_AS(load_named("mnist", folder), run_error);
}

TEST_CASE("pixels are normalised as each set wants it", "[idx-dataset]") {
  scratch_folder folder;
  write_set(folder, with_dash);
  auto white = [&](const char* name) {
    auto batch = load_named(name, folder)
                   .train->gather_range(0, 1, config::scalar_type::float32);
    return batch.inputs.const_data_ptr<float>()[0];
  };
  CHECK(white("mnist") == Catch::Approx((1 - 0.1307) / 0.3081));
  CHECK(white("fashion-mnist") == Catch::Approx((1 - 0.2860) / 0.3530));
}

TEST_CASE("absent files are named with the folders tried", "[idx-dataset]") {
  scratch_folder folder;
  write_set(folder, with_dash);
  std::filesystem::remove(folder.path() / "t10k-labels-idx1-ubyte");
  auto line = error_line<run_error>([&] { load_named("mnist", folder); });
  CHECK_THAT(line, ContainsSubstring("mnist: no file t10k-labels-idx1-ubyte or "
                                     "t10k-labels.idx1-ubyte (or with .gz)") &&
                     ContainsSubstring(folder.path().string() + ", ") &&
                     ContainsSubstring(folder.path() / "MNIST/raw"));
}

TEST_CASE("files that do not belong together are refused", "[idx-dataset]") {
  scratch_folder folder;
  write_set(folder, with_dash);
  std::string expected;
  SECTION("more images than labels") {
    folder.write("train-labels-idx1-ubyte", labels_file(2, {7, 8}));
    expected = "train-labels-idx1-ubyte has 2 labels";
  }
  SECTION("no images") {
    folder.write("t10k-images-idx3-ubyte", gray_images(0, 0));
    folder.write("t10k-labels-idx1-ubyte", labels_file(0, {}));
    expected = "there are no images";
  }
  SECTION("images of another size") {
    folder.write("t10k-images-idx3-ubyte", images_file(2, 2, 2, bytes(8, 0)));
    expected = "differ in size";
  }
  auto line = error_line<run_error>([&] { load_named("mnist", folder); });
  CHECK_THAT(line, ContainsSubstring(expected));
}

TEST_CASE("a set smaller than a batch is refused", "[idx-dataset]") {
  scratch_folder folder;
  write_set(folder, with_dash);
  auto train = load_named("mnist", folder).train;
  CHECK_NOTHROW(require_batch(*train, 3));
  CHECK(error_line<run_error>([&] { require_batch(*train, 64); }) ==
        "the data set mnist has 3 samples, fewer than a batch of 64");
}

TEST_CASE("wrong settings are the user's error", "[idx-dataset]") {
  auto line = [](const char* name) {
    return error_line<usage_error>(
      [&] { load_dataset({.dataset = name, .data_dir = {}}, 1); });
  };
  CHECK_THAT(line("mnist"), ContainsSubstring("--data-dir"));
  CHECK(line("minst") == "unknown data set 'minst'; --list-datasets shows all");
}
