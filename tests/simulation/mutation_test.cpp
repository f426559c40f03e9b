// Each mutation is soon caught by random faults. This program compiles the
// decision cores and policies a second time, with the mutations in them.

#include "actors/policies/mutation.hpp"
#include "tests/simulation/soak.hpp"
#include "tests/support/temporary_folder.hpp"

#include <catch2/catch_test_macros.hpp>

#include <cstdio>
#include <sstream>

using namespace troupe;
using namespace troupe::test;

namespace {

/// Runs within which each bug must be caught.
constexpr uint64_t most_runs = 100;

/// Plants a bug for the time of a scope.
struct plant {
  explicit plant(bug x) { mutation_now = x; }

  ~plant() { mutation_now = bug::none; }
};

struct caught {
  uint64_t number = 0; ///< 0: it was not caught.
  std::string line;
};

caught hunt(bug mutation, const std::filesystem::path& folder) {
  plant here{mutation};
  for (uint64_t number = 1; number <= most_runs; ++number) {
    auto found = soak_once(soak_arguments(number), folder);
    if (found.how.status != 0)
      return {number, found.how.line};
  }
  return {};
}

} // namespace

TEST_CASE("every mutation is caught") {
  testing::temporary_folder folder{soak_folder()};
  for (auto i = 1; i <= static_cast<int>(last_bug); ++i) {
    auto found = hunt(static_cast<bug>(i), folder / "run");
    std::printf("bug %2d: run %3llu: %s\n", i,
                static_cast<unsigned long long>(found.number),
                found.line.substr(0, found.line.find(';')).c_str());
    INFO("bug " << i);
    CHECK(found.number != 0);
    CHECK(found.line.starts_with("a promise is broken at "));
  }
}

TEST_CASE("without a bug the same runs break no promise") {
  testing::temporary_folder folder{soak_folder()};
  for (uint64_t number = 1; number <= most_runs; ++number) {
    auto found = soak_once(soak_arguments(number), folder / "run");
    INFO(found.how.line);
    CHECK(found.how.status == 0);
  }
}

TEST_CASE("the command of a failure shows the same failure again") {
  testing::temporary_folder folder{soak_folder()};
  auto first = hunt(bug::staleness_off_by_one, folder / "run");
  REQUIRE(first.number != 0);
  std::string command = "to be seen again with: trainer_node ";
  auto at = first.line.find(command);
  REQUIRE(at != std::string::npos);
  std::istringstream words{first.line.substr(at + command.size())};
  std::vector<std::string> arguments;
  for (std::string word; words >> word;) {
    std::erase(word, '\'');
    arguments.push_back(word);
  }
  plant here{bug::staleness_off_by_one};
  CHECK(soak_once(arguments, folder / "again").how.line == first.line);
}
