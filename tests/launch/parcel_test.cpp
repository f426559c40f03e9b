#include "apps/launch/ssh/parcel.hpp"
#include "tests/support/temporary_folder.hpp"

#include <catch2/catch_test_macros.hpp>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>

using namespace troupe;
using namespace troupe::app;

// Hosts may have one home. While the files of one launch arrive there, another
// launch removes what was not used for a month.
TEST_CASE("a stored file of the program is new, however old it is here",
          "[launch]") {
  namespace fs = std::filesystem;
  testing::temporary_folder at;
  auto here = at.path() / "here";
  auto there = at.path() / "there";
  fs::create_directories(here);
  fs::create_directories(there);
  std::ofstream{here / "libold.so-1"} << "code";
  auto now = fs::file_time_type::clock::now();
  last_write_time(here / "libold.so-1", now - std::chrono::days(365));
  auto command = "cd " + quoted(here.string()) + " && tar -cf - * | sh -c " +
                 quoted(command_to_store(there.string())) + " > /dev/null";
  REQUIRE(std::system(command.c_str()) == 0);
  CHECK(last_write_time(there / "libold.so-1") > now - std::chrono::hours(1));
}

TEST_CASE("what a host has is in use as soon as it is asked what it lacks",
          "[launch]") {
  namespace fs = std::filesystem;
  testing::temporary_folder at;
  auto folder = at.path() / "troupe/launch";
  fs::create_directories(folder);
  std::ofstream{folder / "libold.so-1"} << "code";
  auto now = fs::file_time_type::clock::now();
  last_write_time(folder / "libold.so-1", now - std::chrono::days(365));
  std::vector<parcel_file> program{{{}, "libold.so", "libold.so-1"},
                                   {{}, "libnew.so", "libnew.so-1"}};
  auto command = "XDG_CACHE_HOME=" + quoted(at.path().string()) + " sh -c " +
                 quoted(command_of_agent(program)) + " | grep -q lacks";
  REQUIRE(std::system(command.c_str()) == 0);
  CHECK(last_write_time(folder / "libold.so-1") > now - std::chrono::hours(1));
}
