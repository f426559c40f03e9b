#include "models/storage/best_weights.hpp"
#include "tests/support/metrics.hpp"
#include "tests/support/temporary_folder.hpp"

#include <catch2/catch_test_macros.hpp>

#include <array>
#include <fstream>

using namespace troupe;
using namespace troupe::models;
using troupe::testing::found;
using troupe::testing::slurp;
using troupe::testing::spill;
using troupe::testing::temporary_folder;

namespace {

namespace fs = std::filesystem;

void write(const fs::path& run, const best_score& best,
           const std::string& id = "r1") {
  static const std::array<float, 4> numbers{1, 2, 3, 4};
  std::vector<named_tensor> weights{
    {"fc.weight", "F32", {2, 2}, std::as_bytes(std::span{numbers})}};
  write_best(run, best, id, weights);
}

} // namespace

TEST_CASE("the score of the best weights reads back to the last bit") {
  temporary_folder run;
  CHECK_FALSE(open_best(run.path(), "r1"));
  write(run.path(), {40, found(0.1 + 0.2, 1.0 / 3)});
  write(run.path(), {50, {{"f1", 1.0 / 7}, {"loss", 1e-310}}});
  auto read = open_best(run.path(), "r1");
  REQUIRE(read);
  CHECK(read->step == 50);
  CHECK(config::value_of(read->metrics, "f1") == 1.0 / 7);
  CHECK(config::value_of(read->metrics, "loss") == 1e-310);
  auto file = read_safetensors(run.path() / best_weights_file);
  CHECK(file.find("fc.weight")->shape == std::vector<int64_t>{2, 2});
  CHECK(file.metadata().at("format") == "pt");
}

TEST_CASE("best weights that are of no use are set aside, with a line") {
  temporary_folder run;
  auto path = run.path() / best_weights_file;
  std::string kind = "damaged-";
  std::string why;
  SECTION("of another run") {
    write(run.path(), {50, found(0.5, 1)}, "r2");
    kind = "abandoned-";
    why = "it is of another run";
  }
  SECTION("without a score") {
    output_file out{path};
    write_safetensors(out, {}, {{"run_id", "r1"}});
    out.finish();
    why = "no step in its header";
  }
  SECTION("without a metric") {
    write(run.path(), {50, {}});
    why = "no metric in its header";
  }
  SECTION("torn") {
    write(run.path(), {50, found(0.5, 1)});
    fs::resize_file(path, fs::file_size(path) - 1);
    why = "its data_offsets are outside the file";
  }
  auto content = slurp(path);
  auto aside = kind + best_weights_file;
  std::vector<std::string> lines;
  auto keep_line = [&](const std::string& line) {
    lines.push_back(line);
  };
  CHECK_FALSE(open_best(run.path(), "r1", keep_line));
  CHECK_FALSE(fs::exists(path));
  CHECK(slurp(run / aside) == content);
  REQUIRE(lines.size() == 1);
  INFO(lines[0]);
  CHECK(lines[0].find(path.string()) == 0);
  CHECK(lines[0].find(why + "; it is now " + aside) != std::string::npos);
  // The next damaged file does not replace the first that was set aside.
  spill(path, content);
  CHECK_FALSE(open_best(run.path(), "r1"));
  CHECK(slurp(run / (aside + ".2")) == content);
}

TEST_CASE("every flipped bit of best weights is noticed") {
  temporary_folder run;
  write(run.path(), {50, found(0.5, 1)});
  auto path = run.path() / best_weights_file;
  const auto good = slurp(path);
  for (size_t bit = 0; bit < 8 * good.size(); ++bit) {
    auto damaged = good;
    damaged[bit / 8] ^= static_cast<char>(1 << (bit % 8));
    spill(path, damaged);
    INFO("bit " << bit);
    REQUIRE_FALSE(open_best(run.path(), "r1"));
    REQUIRE(fs::remove(run / "damaged-best.safetensors"));
  }
  spill(path, good);
  CHECK(open_best(run.path(), "r1")->step == 50);
}

TEST_CASE("best weights of a release without checksums are still read") {
  temporary_folder run;
  write(run.path(), {50, found(0.5, 1)});
  auto path = run.path() / best_weights_file;
  auto about = read_safetensors(path).metadata();
  CHECK(about.erase(std::string{seal_key}) == 1);
  output_file out{path};
  write_safetensors(out, {}, about);
  out.finish();
  CHECK(open_best(run.path(), "r1")->metrics.at(0).value == 0.5);
}

TEST_CASE("best weights are copied if they are those") {
  temporary_folder from;
  temporary_folder to;
  copy_best(from.path(), to.path(), 50, "r1");
  write(from.path(), {50, found(0.5, 1)});
  copy_best(from.path(), to.path(), 40, "r1");
  copy_best(from.path(), to.path(), 50, "r2");
  CHECK_FALSE(fs::exists(to.path() / best_weights_file));
  copy_best(from.path(), to.path(), 50, "r1");
  CHECK(open_best(to.path(), "r1")->metrics.at(0).value == 0.5);
  CHECK(read_safetensors(to.path() / best_weights_file).tensors().size() == 1);
}

TEST_CASE("what a killed writer left is not the best") {
  temporary_folder run;
  write(run.path(), {50, found(0.5, 1)});
  auto torn = run.path() / "best.safetensors.tmp";
  std::ofstream{torn} << "half";
  CHECK(open_best(run.path(), "r1")->step == 50);
  CHECK_FALSE(fs::exists(torn));
}
