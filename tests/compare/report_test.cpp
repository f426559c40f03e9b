#include "apps/lab/compare/compare.hpp"
#include "apps/lab/compare/plots.hpp"
#include "tests/support/temporary_folder.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers.hpp>
#include <nlohmann/json.hpp>

#include <fstream>
#include <sstream>
#include <utility>

using namespace troupe;

namespace {

std::string text_of(const std::filesystem::path& path) {
  std::ostringstream out;
  out << std::ifstream{path}.rdbuf();
  return out.str();
}

size_t count(const std::string& text, const std::string& word) {
  size_t out = 0;
  for (auto at = text.find(word); at != std::string::npos;
       at = text.find(word, at + 1))
    ++out;
  return out;
}

} // namespace

TEST_CASE("a comparison leaves a table, its figures and a page with plots") {
  testing::temporary_folder folder;
  auto report = folder / "report";
  auto status = app::compare(
    {"--policies", "sync,backup:1:cancel,ssp:1,async", "--seeds", "2",
     "--workers", "3", "--max-steps", "4", "--batch-size", "8", "--train-dir",
     report.string(), "--compute-time", "exp(offset=0.5,mean=0.5)"},
    {});
  CHECK(status == exit_status::done);
  auto found = nlohmann::json::parse(text_of(report / "report.json"));
  REQUIRE(found["runs"].size() == 8);
  CHECK(found["target_accuracy"] == 0.95);
  // As many gradients for everybody.
  CHECK(found["runs"][0]["steps"] == 4);
  CHECK(found["runs"][2]["steps"] == 6);
  CHECK(found["runs"][4]["steps"] == 12);
  CHECK(found["runs"][6]["accuracy"].size() == 2);
  CHECK(count(text_of(report / "report.csv"), "\n") == 9);
  REQUIRE(app::can_draw());
  auto page = text_of(report / "report.html");
  CHECK(count(page, "data:image/svg+xml;base64,") == 6);
  for (const auto* plot : {"accuracy", "staleness", "timeline-4"})
    CHECK(count(text_of(report / "plots" / (plot + std::string{".svg"})),
                "</svg>") == 1);
  CHECK(page.ends_with("</html>\n"));
  CHECK(std::filesystem::exists(report / "sync-seed-1" / "metrics.jsonl"));
  CHECK(std::filesystem::exists(report / "backup-1-cancel-seed-2"));
}

TEST_CASE("a run that diverges is reported, and the others go on") {
  testing::temporary_folder folder;
  auto report = folder / "report";
  auto status =
    app::compare({"--policies", "async/lr=3,sync", "--seeds", "1", "--workers",
                  "4", "--max-steps", "10", "--train-dir", report.string()},
                 {});
  CHECK(status == exit_status::failed);
  auto found = nlohmann::json::parse(text_of(report / "report.json"));
  REQUIRE(found["runs"].size() == 2);
  CHECK(found["runs"][0]["seconds_to_target"].is_null());
  CHECK(found["runs"][1]["steps"] == 10);
}

TEST_CASE("a comparison that is stopped reports the runs that are done") {
  testing::temporary_folder folder;
  auto report = folder / "report";
  // The second policy would go on for hours.
  auto endless = report / "async_max-steps-100000000-seed-1" / "metrics.jsonl";
  auto asked = false;
  auto status = app::compare(
    {"--policies", "sync/max-steps=4,async/max-steps=100000000,ssp:1",
     "--seeds", "1", "--workers", "2", "--batch-size", "8", "--epochs",
     "1000000", "--target-accuracy", "1", "--train-dir", report.string()},
    [&] {
      return std::filesystem::exists(endless) && !std::exchange(asked, true);
    });
  CHECK(status == exit_status::try_again);
  auto found = nlohmann::json::parse(text_of(report / "report.json"));
  CHECK(found["runs_planned"] == 3);
  REQUIRE(found["runs"].size() == 1);
  CHECK(found["runs"][0]["policy"] == "sync/max-steps=4");
  CHECK(count(text_of(report / "report.csv"), "\n") == 2);
  auto page = text_of(report / "report.html");
  CHECK(count(page, "stopped by a signal after 1 of 3 runs") == 1);
  CHECK(page.ends_with("</html>\n"));
}

TEST_CASE("a signal between two runs of a comparison keeps the next away") {
  testing::temporary_folder folder;
  auto report = folder / "report";
  auto first = report / "sync-seed-1" / "summary.json";
  auto status = app::compare(
    {"--policies", "sync,async", "--seeds", "2", "--workers", "2",
     "--max-steps", "4", "--batch-size", "8", "--train-dir", report.string()},
    [&] { return std::filesystem::exists(first); });
  CHECK(status == exit_status::try_again);
  auto found = nlohmann::json::parse(text_of(report / "report.json"));
  CHECK(found["runs"].size() == 1);
  CHECK_FALSE(std::filesystem::exists(report / "sync-seed-2"));
}

TEST_CASE("a comparison that is stopped in its first run has no report") {
  testing::temporary_folder folder;
  auto report = folder / "report";
  CHECK_THROWS_WITH(
    app::compare(
      {"--policies", "sync", "--seeds", "2", "--workers", "2", "--max-steps",
       "100000000", "--epochs", "1000000", "--target-accuracy", "1",
       "--train-dir", report.string()},
      [asked = false]() mutable { return !std::exchange(asked, true); }),
    "stopped by a signal before a run was done; no report");
  CHECK_FALSE(std::filesystem::exists(report / "report.json"));
}
