// Checkpoints that were damaged after they were written.

#include "config/text/failure.hpp"
#include "models/storage/checkpoint.hpp"
#include "tests/models/checkpoint_samples.hpp"
#include "tests/support/temporary_folder.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <sys/stat.h>

#include <random>

using namespace troupe;
using namespace troupe::models;
using Catch::Matchers::ContainsSubstring;
using testing::slurp;
using testing::spill;
using testing::temporary_folder;
using testing::write_sample;

namespace fs = std::filesystem;

namespace {

/// Expects that the newest checkpoint (step 200) is refused, and that the one
/// before takes its place after one line.
void check_falls_back(const fs::path& dir, const std::string& complaint) {
  auto path = dir / "step-00000200";
  CHECK_THROWS_AS(read_checkpoint(path), run_error);
  CHECK_THROWS_WITH(read_checkpoint(path), ContainsSubstring(path.string()) &&
                                             ContainsSubstring(complaint) &&
                                             !ContainsSubstring("\n"));
  std::vector<std::string> lines;
  auto found = newest_valid(dir, [&](auto& line) { lines.push_back(line); });
  REQUIRE(found.has_value());
  CHECK(found->manifest.step() == 100);
  REQUIRE(lines.size() == 1);
  CHECK_THAT(lines[0], ContainsSubstring("step-00000200") &&
                         ContainsSubstring("trying the one before"));
}

/// Writes a manifest without a good seal of its own.
void rewrite_manifest(const fs::path& path, void (*change)(proto::Manifest&)) {
  auto manifest = read_manifest(path);
  change(manifest);
  manifest.clear_self_sha256();
  auto body = manifest.SerializeAsString();
  auto digest = sha256_of(std::as_bytes(std::span{body}));
  proto::Manifest seal;
  seal.set_self_sha256(digest.data(), digest.size());
  spill(path / "manifest.pb", body + seal.SerializeAsString());
}

} // namespace

TEST_CASE("a damaged file of a checkpoint is noticed") {
  temporary_folder folder;
  write_sample(folder.path(), 100);
  auto path = write_sample(folder.path(), 200);
  auto name =
    GENERATE("manifest.pb", "model.safetensors", "optimizer.safetensors");
  auto file = path / name;
  auto text = slurp(file);
  SECTION("empty") {
    spill(file, "");
    check_falls_back(folder.path(), name);
  }
  SECTION("one byte short") {
    spill(file, text.substr(0, text.size() - 1));
    check_falls_back(folder.path(), name);
  }
  SECTION("cut in half") {
    spill(file, text.substr(0, text.size() / 2));
    check_falls_back(folder.path(), name);
  }
  SECTION("one byte too many") {
    spill(file, text + "x");
    check_falls_back(folder.path(), name);
  }
  SECTION("missing") {
    fs::remove(file);
    check_falls_back(folder.path(), name);
  }
  SECTION("garbage of the same size") {
    spill(file, std::string(text.size(), '\x5a'));
    check_falls_back(folder.path(), name);
  }
  SECTION("zeros") {
    spill(file, std::string(text.size(), '\0'));
    check_falls_back(folder.path(), name);
  }
  SECTION("a folder instead") {
    fs::remove(file);
    fs::create_directory(file);
    check_falls_back(folder.path(), name);
  }
  SECTION("a pipe instead") {
    fs::remove(file);
    REQUIRE(::mkfifo(file.c_str(), 0600) == 0);
    check_falls_back(folder.path(), name);
  }
}

TEST_CASE("every flipped bit of a checkpoint is noticed") {
  temporary_folder folder;
  auto path = write_sample(folder.path(), 200);
  auto name =
    GENERATE("manifest.pb", "model.safetensors", "optimizer.safetensors");
  auto text = slurp(path / name);
  std::mt19937 random{7};
  for (int i = 0; i < 200; ++i) {
    auto damaged = text;
    auto bit = random() % (8 * text.size());
    damaged[bit / 8] ^= static_cast<char>(1 << (bit % 8));
    spill(path / name, damaged);
    CHECK_THROWS_AS(read_checkpoint(path), run_error);
  }
  spill(path / name, text);
  CHECK(read_checkpoint(path).manifest.step() == 200);
}

TEST_CASE("a manifest that lies is refused though its seal is good") {
  temporary_folder folder;
  write_sample(folder.path(), 100);
  auto path = write_sample(folder.path(), 200);
  SECTION("another format") {
    rewrite_manifest(path, [](auto& x) { x.set_format_version(2); });
    check_falls_back(folder.path(), "format version 2");
  }
  SECTION("another step") {
    rewrite_manifest(path, [](auto& x) { x.set_step(201); });
    check_falls_back(folder.path(), "is of step 201");
  }
  SECTION("a file is not listed") {
    rewrite_manifest(
      path, [](auto& x) { x.mutable_files(0)->set_name("../../elsewhere"); });
    check_falls_back(folder.path(), "does not list model.safetensors");
  }
  SECTION("a file is listed twice") {
    rewrite_manifest(path, [](auto& x) { *x.add_files() = x.files(1); });
    check_falls_back(folder.path(), "lists twice: optimizer.safetensors");
  }
  SECTION("a huge file") {
    rewrite_manifest(path,
                     [](auto& x) { x.mutable_files(0)->set_size(1ull << 60); });
    check_falls_back(folder.path(), "instead of 1152921504606846976");
  }
  SECTION("a rank that would cost gigabytes") {
    rewrite_manifest(path, [](auto& x) {
      x.mutable_counters()->add_workers()->set_worker(0xffffffff);
    });
    check_falls_back(folder.path(), "a worker of rank 4294967295");
  }
  SECTION("a part of the data of such a rank") {
    rewrite_manifest(path, [](auto& x) {
      x.mutable_ledger()->add_parts()->set_part(1u << 20);
    });
    check_falls_back(folder.path(), "a worker of rank 1048576");
  }
  SECTION("as many workers") {
    rewrite_manifest(
      path, [](auto& x) { x.mutable_ledger()->set_workers(0xffffffff); });
    check_falls_back(folder.path(), "a worker of rank 4294967294");
  }
  SECTION("files that changed places") {
    fs::rename(path / "model.safetensors", path / "x");
    fs::rename(path / "optimizer.safetensors", path / "model.safetensors");
    fs::rename(path / "x", path / "optimizer.safetensors");
    check_falls_back(folder.path(), "model.safetensors");
  }
}

TEST_CASE("a file where a checkpoint should be is passed over") {
  temporary_folder folder;
  write_sample(folder.path(), 100);
  spill(folder / "step-00000200", "not a folder");
  check_falls_back(folder.path(), "it is not a folder");
}

TEST_CASE("other files in a checkpoint's folder do no harm") {
  temporary_folder folder;
  auto path = write_sample(folder.path(), 200);
  spill(path / "notes.txt", "the good one");
  CHECK(read_checkpoint(path).manifest.step() == 200);
}

TEST_CASE("nothing is found where all checkpoints are damaged") {
  temporary_folder folder;
  for (uint64_t step : {1, 2, 3})
    fs::remove(write_sample(folder.path(), step) / "manifest.pb");
  int lines = 0;
  CHECK(!newest_valid(folder.path(), [&](auto&) { ++lines; }));
  CHECK(lines == 3);
  CHECK_THROWS_WITH(find_checkpoint(folder.path(), {}),
                    ContainsSubstring("no usable checkpoint in "));
}
