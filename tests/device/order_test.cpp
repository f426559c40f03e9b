// The fake device's own rules, and that engine and server need each thing that
// they wait for.

#include "tests/device/fake/order.hpp"
#include "tests/support/process.hpp"
#include "tests/support/temporary_folder.hpp"

#include <catch2/catch_test_macros.hpp>

#include <sstream>
#include <string>
#include <vector>

using namespace troupe::testing;
using fake::access_history;
using fake::join;
using fake::order;

TEST_CASE("work on one stream is in order") {
  order times;
  access_history memory;
  auto first = times.begin(1, "write");
  CHECK(memory.add(0, 8, true, first, times.of(1)).empty());
  auto next = times.begin(1, "read");
  CHECK(memory.add(0, 8, false, next, times.of(1)).empty());
}

TEST_CASE("work on two streams is in order only by an event") {
  order times;
  access_history memory;
  auto first = times.begin(1, "copy");
  CHECK(memory.add(0, 8, true, first, times.of(1)).empty());
  auto event = times.of(1);
  auto other = times.begin(2, "mm");
  CHECK(
    memory.add(4, 6, false, other, times.of(2)) ==
    "mm on stream 2 reads what copy on stream 1 writes, and no event orders "
    "the two");
  CHECK(memory.add(8, 9, true, other, times.of(2)).empty());
  join(times.of(2), event);
  auto later = times.begin(2, "mm");
  CHECK(memory.add(4, 6, false, later, times.of(2)).empty());
}

TEST_CASE("two reads need no order, a write behind them does") {
  order times;
  access_history memory;
  CHECK(memory.add(0, 4, false, times.begin(1, "a"), times.of(1)).empty());
  CHECK(memory.add(0, 4, false, times.begin(2, "b"), times.of(2)).empty());
  CHECK_FALSE(memory.add(0, 4, true, times.begin(2, "c"), times.of(2)).empty());
}

TEST_CASE("what the host has waited for is over for all") {
  order times;
  access_history memory;
  auto first = times.begin(1, "copy");
  CHECK(memory.add(0, 4, true, first, times.of(1)).empty());
  CHECK(memory.open_for(times.host()).size() == 1);
  times.host_waits_for(times.of(1));
  CHECK(memory.open_for(times.host()).empty());
  auto other = times.begin(2, "mm");
  CHECK(memory.add(0, 4, true, other, times.of(2)).empty());
}

namespace {

struct finished {
  int status;
  std::string out;
};

/// Ends by a signal when the host uses memory that is in use.
finished run_without(const std::vector<std::string>& program, int dependency) {
  temporary_folder home;
  child_options how;
  how.environment = {{"TROUPE_CUDA_LIBRARY", FAKE_CUDA},
                     {"FAKE_NCCL_PACE", "20"},
                     {"FAKE_CUDA_FORGETS", std::to_string(dependency)}};
  child process{program, home.path() / "run", how};
  auto status = process.wait();
  return {status, process.out() + process.err()};
}

/// Checks that a program notices each dependency that is left out. It prints
/// between which numbers it makes something wait.
void check_needed(const std::vector<std::string>& program, int least) {
  auto whole = run_without(program, 0);
  INFO(whole.out);
  REQUIRE(whole.status == 0);
  int first = 0;
  int last = 0;
  std::istringstream{whole.out} >> first >> last;
  CHECK(last - first + 1 >= least);
  for (int i = first; i <= last; ++i) {
    auto found = run_without(program, i);
    INFO("without dependency " << i << ": " << found.out);
    CHECK(found.status != 0);
  }
}

} // namespace

TEST_CASE("nothing that the engine waits for can be left out") {
  check_needed({ONE_BATCH}, 10);
}

TEST_CASE("nothing that a segment waits for can be left out") {
  check_needed({ONE_SEGMENT}, 10);
}

TEST_CASE("nothing that a segment waits for in fp16 can be left out") {
  check_needed({ONE_SEGMENT, "fp16"}, 10);
}

TEST_CASE("nothing that a server's versions wait for can be left out") {
  check_needed({FEW_STEPS}, 10);
}

TEST_CASE("nothing that the engine waits for in fp16 can be left out") {
  check_needed({ONE_BATCH, "fp16"}, 10);
}

// Some are not needed in every run: whoever gets a payload waits for an event
// of which its process may know already that it has happened.
TEST_CASE("what GPUs wait for that send each other numbers is needed") {
  auto whole = run_without({ONE_EXCHANGE}, 0);
  INFO(whole.out);
  REQUIRE(whole.status == 0);
  auto noticed = 0;
  for (int i = std::atoi(whole.out.c_str()); i > 0; --i)
    noticed += run_without({ONE_EXCHANGE}, i).status != 0 ? 1 : 0;
  CHECK(noticed >= 15);
}
