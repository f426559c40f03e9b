#include "config/text/failure.hpp"
#include "config/text/value.hpp"
#include "config/values/faults.hpp"

#include <catch2/catch_test_macros.hpp>

using namespace troupe;
using namespace troupe::config;

namespace {

std::string faults_complaint(std::string_view text) {
  try {
    parse_faults(text, "f.txt", 4);
  } catch (const usage_error& why) {
    return why.what();
  }
  return "";
}

} // namespace

TEST_CASE("faults are read line by line, in the order of their times",
          "[faults]") {
  auto all = parse_faults("# comment\n"
                          "\n"
                          "12.5 crash(worker=3,restart=4)  # and why\r\n"
                          "0\tcrash(worker=1)\n"
                          "7 crash-server(restart=2)\n"
                          "7 slow(worker=0, factor=5, for=10)\n"
                          "8 cut(worker=2,for=0.5)\n"
                          "9 delay(worker=2,by=2,for=10)\n"
                          "9.5 duplicate(worker=2,after=0,for=10)",
                          "f.txt", 4);
  REQUIRE(all.size() == 7);
  CHECK(all[0] == fault{0, fault_kind::crash, 1, {}, 0});
  CHECK(all[1] == fault{7, fault_kind::crash_server, 0, 2, 0});
  CHECK(all[2] == fault{7, fault_kind::slow, 0, 10, 5});
  CHECK(all[3] == fault{8, fault_kind::cut, 2, 0.5, 0});
  CHECK(all[6] == fault{12.5, fault_kind::crash, 3, 4, 0});
}

TEST_CASE("a fault that is printed reads back to the same", "[faults]") {
  for (auto text :
       {"crash(worker=3,restart=4)", "crash(worker=1)",
        "crash-server(restart=2)", "slow(worker=0,factor=5,for=10)",
        "cut(worker=2,for=0.5)", "delay(worker=2,by=2,for=10)",
        "duplicate(worker=2,after=0,for=10)", "cut-up(worker=1,for=2)",
        "cut-down(worker=1,for=2)", "pause(for=20)", "stall-recorder(for=3)",
        "fail-server(restart=2)"})
    CHECK(to_string(parse_fault(1, text)) == text);
}

TEST_CASE("a wrong fault is named with file and line", "[faults]") {
  CHECK(faults_complaint("1 crash(worker=1)\n2 crush(worker=1)") ==
        "f.txt:2: 2 crush(worker=1): 'crush' is no fault; known: crash, "
        "crash-server, slow, cut, delay, duplicate, cut-up, cut-down, pause, "
        "stall-recorder, fail-server; did you mean 'crash'?");
  CHECK(faults_complaint("crash(worker=1)") ==
        "f.txt:1: crash(worker=1): must begin with a time in seconds, as in "
        "'12.5 crash(worker=3,restart=4)'");
  CHECK(
    faults_complaint("1 cut(worker=4,for=1)") ==
    "f.txt:1: 1 cut(worker=4,for=1): there is no worker 4: the cluster has 4");
  CHECK(faults_complaint("1 cut(worker=1)") ==
        "f.txt:1: 1 cut(worker=1): cut needs for, seconds that it lasts");
  CHECK(faults_complaint("1 cut(worker=1,for=0)") ==
        "f.txt:1: 1 cut(worker=1,for=0): for of cut must be above 0");
  CHECK(faults_complaint("-1 cut(worker=1,for=1)") ==
        "f.txt:1: -1 cut(worker=1,for=1): the time must be from 0 to 1e9");
  CHECK(
    faults_complaint("1 crash-server()") ==
    "f.txt:1: 1 crash-server(): crash-server needs restart, seconds until it "
    "comes back");
  CHECK(faults_complaint("1 cut(1)") ==
        "f.txt:1: 1 cut(1): '1' must be NAME=VALUE");
}

TEST_CASE("random faults are told from a file", "[faults]") {
  CHECK_FALSE(parse_random_faults("random.txt"));
  CHECK_FALSE(parse_random_faults("faults/one.txt"));
  CHECK(parse_random_faults("random(7)") == random_faults{7, 6, 40});
  CHECK(parse_random_faults("random(18446744073709551615)")->seed ==
        UINT64_MAX);
  CHECK(parse_random_faults("random(seed=7,faults=2,until=9.5)") ==
        random_faults{7, 2, 9.5});
  CHECK_THROWS_AS(parse_random_faults("random()"), bad_value);
  CHECK_THROWS_AS(parse_random_faults("random(x=1)"), bad_value);
  CHECK_THROWS_AS(read_faults("there/is/none", 4), usage_error);
}
