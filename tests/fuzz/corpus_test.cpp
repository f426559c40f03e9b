// Each target as an ordinary test: what fuzzing found of interest, in corpus/,
// and what our own writers write.

#include "tests/fuzz/seeds.hpp"
#include "tests/fuzz/targets.hpp"
#include "tests/support/temporary_folder.hpp"

#include <catch2/catch_test_macros.hpp>

#include <algorithm>

using namespace troupe;
using namespace troupe::fuzz;

namespace fs = std::filesystem;

namespace {

const fs::path corpus = TROUPE_FUZZ_CORPUS;

bytes_view view_of(const std::string& bytes) {
  return {reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()};
}

std::vector<fs::path> entries_of(const fs::path& folder) {
  std::vector<fs::path> out{fs::directory_iterator{folder}, {}};
  std::ranges::sort(out);
  return out;
}

} // namespace

TEST_CASE("every input that fuzzing found is taken or refused in one line") {
  for (const auto& each : all_targets()) {
    auto files = entries_of(corpus / each.name);
    CHECK(files.size() >= 3);
    for (const auto& file : files) {
      INFO(file);
      auto bytes = testing::slurp(file);
      CHECK_NOTHROW(each.run(view_of(bytes)));
    }
  }
}

TEST_CASE("an input of nothing at all is taken or refused in one line") {
  for (const auto& each : all_targets()) {
    INFO(each.name);
    CHECK_NOTHROW(each.run({}));
  }
}

TEST_CASE("what our own writers write is taken") {
  for (const auto& each : all_targets()) {
    auto good = seeds(each.name);
    CHECK_FALSE(good.empty());
    for (const auto& [name, bytes] : good) {
      INFO(each.name << ": " << name);
      CHECK(each.run(view_of(bytes)));
    }
  }
}

TEST_CASE("inputs lie in folders of targets alone") {
  for (const auto& folder : entries_of(corpus)) {
    INFO(folder);
    CHECK(find_target(folder.filename().string()) != nullptr);
  }
}
