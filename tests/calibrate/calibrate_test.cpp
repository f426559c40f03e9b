// From a virtual run's event log back to the distribution that it declared.

#include "actors/log_files/event_log_file.hpp"
#include "apps/lab/calibrate/calibrate.hpp"
#include "apps/lab/calibrate/fit.hpp"
#include "apps/lab/calibrate/recorded.hpp"
#include "config/values/distribution.hpp"
#include "tests/simulation/virtual_test.hpp"
#include "tests/support/error_line.hpp"

#include <catch2/catch_test_macros.hpp>

#include <cmath>

using namespace troupe;
using namespace troupe::app;
using namespace troupe::test;
using testing::temporary_folder;

namespace {

/// Schedules only: the times are the same as of a run that trains.
std::filesystem::path record(const temporary_folder& folder,
                             const std::string& compute_time,
                             std::vector<std::string> more = {}) {
  more.insert(more.begin(),
              {"--gradients", "none", "--workers", "8", "--max-steps", "250",
               "--compute-time", compute_time, "--tape"});
  run_in(folder / "run", more);
  return folder / "run" / "tape-1.pb";
}

} // namespace

TEST_CASE("the event log of a virtual run gives its distribution back") {
  struct {
    std::string declared;
    double tolerance;
  } const all[] = {
    {"constant(0.5)", 1e-6},
    {"gamma(mean=1,cv=0.3)", 0.06},
    {"exp(offset=0.5,mean=0.5)", 0.08},
    {"pareto(alpha=2.5,mean=1)", 0.08},
    {"transient(base=gamma(mean=1,cv=0.1),p=0.1,factor=5)", 0.3},
    {"slow(base=gamma(mean=1,cv=0.1),worker=3,factor=4)", 0.06},
  };
  for (const auto& one : all) {
    temporary_folder folder;
    auto found = read_times({record(folder, one.declared)});
    CHECK(found.compute.size() == 8);
    CHECK(found.gradients() >= 8 * 249);
    CHECK(found.cancelled == 0);
    auto best = fit_compute_times(found.compute).front();
    INFO(one.declared << ": " << best.compute_time);
    auto wanted = config::parse_distribution(one.declared);
    auto got = config::parse_distribution(best.compute_time);
    REQUIRE(got.name == wanted.name);
    for (const auto& [name, value] : wanted.numbers) {
      INFO(name);
      CHECK(std::abs(got.numbers.at(name) - value) <= one.tolerance * value);
    }
  }
}

TEST_CASE("what tensors take on their way is measured, both ways together") {
  temporary_folder folder;
  auto found = read_times({record(
    folder, "gamma(mean=1,cv=0.3)",
    {"--policy", "backup", "--link-latency", "0.02", "--link-rate", "1e8"})});
  // LeNet's 1.7 MB at 100 MB/s and the latency, there and back.
  auto one_way = 431'080 * 4 / 1e8 + 0.02;
  REQUIRE(found.travel.size() > 1000);
  for (auto seconds : found.travel)
    REQUIRE(std::abs(seconds - 2 * one_way) < 1e-6);
}

TEST_CASE("cancelled computations are counted") {
  temporary_folder folder;
  auto found = read_times({record(folder, "exp(offset=0.5,mean=0.5)",
                                  {"--policy", "backup", "--late", "cancel"})});
  CHECK(found.cancelled > 200);
  CHECK(found.gradients() >= 7 * 249);
}

TEST_CASE("calibrate writes all figures as JSON") {
  temporary_folder folder;
  auto event_log = record(folder, "gamma(mean=1,cv=0.3)").string();
  auto file = (folder / "fit.json").string();
  CHECK(calibrate({event_log, "--json", file}) == exit_status::done);
  auto found = json::parse(text_of_file(file));
  CHECK(found["tapes"] == json{event_log});
  CHECK(found["workers"].size() == 8);
  CHECK(found["candidates"][0]["family"] == "gamma");
  CHECK(found["candidates"][0]["compute_time"] == found["best"]);
  CHECK(found["candidates"][0]["distance"] < found["chance_distance"]);
  CHECK(found["link_latency"].is_null());
  CHECK(found["workers"][3]["median_seconds"].get<double>() > 0.8);
  CHECK(calibrate({event_log, event_log, "--json=" + file}) ==
        exit_status::done);
  CHECK(json::parse(text_of_file(file))["gradients"] ==
        2 * found["gradients"].get<int>());
}

TEST_CASE("calibrate refuses in one line what it cannot fit") {
  temporary_folder folder;
  CHECK(error_line<usage_error>([] { calibrate({}); }) ==
        "calibrate needs an event log: tape-<life>.pb, which a run with --tape "
        "leaves in its directory");
  CHECK(error_line<usage_error>([] {
          calibrate({"x.pb", "--jsn"});
        }) == "calibrate has no flag '--jsn'; did you mean '--json'?");
  CHECK(error_line<usage_error>([] {
          calibrate({"x.pb", "--json"});
        }) == "--json needs a value");
  CHECK(error_line<run_error>([] {
          calibrate({"no.pb"});
        }).find("cannot read no.pb") == 0);
  auto empty = (folder / "empty.pb").string();
  testing::spill(empty, "");
  CHECK(error_line<run_error>([&] { calibrate({empty}); }) ==
        empty + ": is empty: the run was ended before it began");
  auto few = record(folder, "constant(1)", {"--max-steps", "3"}).string();
  CHECK(error_line<run_error>([&] { calibrate({few}); }) ==
        few + ": 24 gradients arrived; a fit takes at least 50");
}
