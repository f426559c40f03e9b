#include "messages/transport/nccl/library/library.hpp"
#include "tests/nccl/collective.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

using namespace troupe::transport::nccl;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::StartsWith;

namespace {

/// The double, as a library that is opened.
library_names named(const std::string& file) {
  auto path = std::string{NCCL_DOUBLES} + "/" + file;
  return {{"libno-such-nccl.so", path}, {path}};
}

/// NCCL is off: why, in one line.
std::string why_off(const loaded& result) {
  CHECK(result.library == nullptr);
  CHECK_THAT(result.why_not, StartsWith("NCCL is off: "));
  CHECK(result.why_not.find('\n') == std::string::npos);
  return result.why_not;
}

std::string why_off(const library_names& names) {
  return why_off(library::load(names));
}

} // namespace

// -- what may be missing ------------------------------------------------------

TEST_CASE("a library that is not there is named, with what to do") {
  library_names names{{"libno-such-nccl.so.2", "/no/such/libnccl.so"},
                      named("libnccl_double.so").cuda};
  auto why = why_off(names);
  CHECK_THAT(why, ContainsSubstring("libno-such-nccl.so.2"));
  CHECK_THAT(why, ContainsSubstring("/no/such/libnccl.so"));
  CHECK_THAT(why, ContainsSubstring("install NCCL 2.18.0"));
}

TEST_CASE("the CUDA runtime that is not there is named") {
  auto names = named("libnccl_double.so");
  names.cuda = {"libno-such-cudart.so"};
  auto why = why_off(names);
  CHECK_THAT(why, ContainsSubstring("libno-such-cudart.so"));
  CHECK_THAT(why, ContainsSubstring("CUDA runtime"));
  CHECK_THAT(why_off(library_names{{}, {}}), ContainsSubstring("no file"));
}

TEST_CASE("an entry point that is missing is named") {
  auto why = why_off(named("libnccl_double_without_abort.so"));
  CHECK_THAT(why, ContainsSubstring("libnccl_double_without_abort.so lacks "
                                    "ncclCommAbort: install"));
}

TEST_CASE("a release that is too old is named, and which is needed") {
  auto why = why_off(named("libnccl_double_old.so"));
  CHECK_THAT(why, ContainsSubstring("is NCCL 2.12.7: install NCCL 2.18.0"));
}

TEST_CASE("a release that nobody knows yet is refused") {
  fake::reset(1);
  fake::version() = 30001;
  auto why = why_off(library::adopt(fake::table(), "libnccl.so.3"));
  CHECK_THAT(why, ContainsSubstring("libnccl.so.3 is NCCL 3.0.1"));
}

TEST_CASE("a machine without a GPU is told") {
  fake::reset(1);
  fake::devices() = 0;
  CHECK_THAT(why_off(library::adopt(fake::table(), "x")),
             ContainsSubstring("there is no CUDA device"));
  fake::devices() = -1;
  CHECK_THAT(why_off(library::adopt(fake::table(), "x")),
             ContainsSubstring("(a planned CUDA error)"));
}

TEST_CASE("numbers of releases are read as NCCL writes them") {
  CHECK(version_text(2708) == "2.7.8");
  CHECK(version_text(22809) == "2.28.9");
  CHECK(version_text(30001) == "3.0.1");
}

TEST_CASE("every entry point has a name of its own") {
  std::set<std::string> names;
  size_t count = 0;
  for_each_entry_point([&](auto, const char* name, bool is_cuda) {
    names.insert(name);
    ++count;
    CHECK(std::string{name}.starts_with(is_cuda ? "cuda" : "nccl"));
  });
  CHECK(names.size() == count);
  CHECK(count * sizeof(void*) == sizeof(entry_points));
}

// -- what is there ------------------------------------------------------------

TEST_CASE("two ranks exchange numbers through a library that was opened") {
  auto result = library::load(named("libnccl_double.so"));
  INFO(result.why_not);
  REQUIRE(result.library != nullptr);
  CHECK(result.library->version() == 22809);
  CHECK(result.library->devices() == 2);
  abi::unique_id id;
  REQUIRE(result.library->call().get_unique_id(&id) == abi::result::success);
  communicator left{result.library, {id, 0, 2, 0}, fake::limits, 0};
  communicator right{result.library, {id, 1, 2, 1}, fake::limits, 0};
  float a = 7, x = 0;
  left.submit({send_to(1, &a, 1)}, no_deadline);
  auto got = right.submit({receive_from(0, &x, 1)}, no_deadline);
  for (int i = 0; i < 1000 && right.completed() < got; ++i) {
    left.poll(0);
    right.poll(0);
  }
  CHECK(right.completed() == got);
  CHECK(x == 7);
}
