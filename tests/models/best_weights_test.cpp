#include "models/best_weights.hpp"
#include "tests/support/temporary_folder.hpp"

#include <catch2/catch_test_macros.hpp>

#include <array>
#include <fstream>

using namespace troupe;
using namespace troupe::models;
using troupe::testing::temporary_folder;

namespace {

namespace fs = std::filesystem;

void write(const fs::path& run, const best_score& what,
           const std::string& id = "r1") {
  static const std::array<float, 4> numbers{1, 2, 3, 4};
  std::vector<named_tensor> weights{
    {"fc.weight", "F32", {2, 2}, std::as_bytes(std::span{numbers})}};
  write_best(run, what, id, weights);
}

} // namespace

TEST_CASE("the score of the best weights reads back to the last bit") {
  temporary_folder run;
  CHECK_FALSE(open_best(run.path(), "r1"));
  write(run.path(), {40, 0.1 + 0.2, 1.0 / 3});
  write(run.path(), {50, 1.0 / 7, 1e-310});
  auto found = open_best(run.path(), "r1");
  REQUIRE(found);
  CHECK(found->step == 50);
  CHECK(found->accuracy == 1.0 / 7);
  CHECK(found->loss == 1e-310);
  auto file = read_safetensors(run.path() / best_weights_file);
  CHECK(file.find("fc.weight")->shape == std::vector<int64_t>{2, 2});
  CHECK(file.metadata().at("format") == "pt");
}

TEST_CASE("best weights that are of no use are removed") {
  temporary_folder run;
  auto path = run.path() / best_weights_file;
  SECTION("of another run") {
    write(run.path(), {50, 0.5, 1}, "r2");
  }
  SECTION("without a score") {
    output_file out{path};
    write_safetensors(out, {}, {{"run_id", "r1"}});
    out.finish();
  }
  SECTION("torn") {
    write(run.path(), {50, 0.5, 1});
    fs::resize_file(path, fs::file_size(path) - 1);
  }
  REQUIRE(fs::exists(path));
  CHECK_FALSE(open_best(run.path(), "r1"));
  CHECK_FALSE(fs::exists(path));
}

TEST_CASE("best weights are copied if they are those") {
  temporary_folder from;
  temporary_folder to;
  copy_best(from.path(), to.path(), 50, "r1");
  write(from.path(), {50, 0.5, 1});
  copy_best(from.path(), to.path(), 40, "r1");
  copy_best(from.path(), to.path(), 50, "r2");
  CHECK_FALSE(fs::exists(to.path() / best_weights_file));
  copy_best(from.path(), to.path(), 50, "r1");
  CHECK(open_best(to.path(), "r1")->accuracy == 0.5);
  CHECK(read_safetensors(to.path() / best_weights_file).tensors().size() == 1);
}

TEST_CASE("what a killed writer left is not the best") {
  temporary_folder run;
  write(run.path(), {50, 0.5, 1});
  auto torn = run.path() / "best.safetensors.tmp";
  std::ofstream{torn} << "half";
  CHECK(open_best(run.path(), "r1")->step == 50);
  CHECK_FALSE(fs::exists(torn));
}
