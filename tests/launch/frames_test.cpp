#include "apps/launch/ssh/frames.hpp"
#include "config/text/failure.hpp"

#include <catch2/catch_test_macros.hpp>
#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <random>

using namespace troupe;
using namespace troupe::app;

namespace {

const frame example{frame_kind::start,
                    7,
                    -3,
                    std::string("a\0\xff\n", 4),
                    {"sh", "", "-c"},
                    {{"HOME", "/root"}, {"X", ""}}};

} // namespace

TEST_CASE("a frame is read as it was written", "[launch]") {
  for (const auto& one : {example, frame{frame_kind::alive}}) {
    auto bytes = to_bytes(one) + "rest";
    std::string_view from{bytes};
    CHECK(take_frame(from) == one);
    CHECK(from == "rest");
  }
}

TEST_CASE("a frame that is not whole is waited for", "[launch]") {
  auto bytes = to_bytes(example);
  for (size_t i = 0; i < bytes.size(); ++i) {
    auto part = std::string_view{bytes}.substr(0, i);
    CHECK_FALSE(take_frame(part));
    CHECK(part.size() == i);
  }
}

TEST_CASE("what is no frame is refused", "[launch]") {
  for (const auto& bytes :
       {std::string("\0\0\0\0", 4), std::string("\xff\0\0\0", 4),
        std::string("\0\0\0\1x", 5), std::string("\0\0\0\1\xa0", 5)}) {
    std::string_view from{bytes};
    CHECK_THROWS_AS(take_frame(from), run_error);
  }
  std::mt19937 random{1};
  for (int times = 0; times < 2000; ++times) {
    auto bytes = to_bytes(example);
    bytes[4 + random() % (bytes.size() - 4)] = static_cast<char>(random());
    std::string_view from{bytes};
    try {
      take_frame(from);
    } catch (const run_error&) {
      // It is told of in one line.
    }
  }
}

TEST_CASE("lines may come before frames", "[launch]") {
  std::array<int, 2> ends{};
  REQUIRE(pipe2(ends.data(), O_CLOEXEC) == 0);
  auto bytes = "hello\nready\n" + to_bytes(example) + to_bytes(example);
  REQUIRE(write(ends[1], bytes.data(), bytes.size()) ==
          static_cast<ssize_t>(bytes.size()));
  frame_stream stream{ends[0], ends[1]};
  stream.read();
  CHECK(stream.take_line() == "hello");
  CHECK(stream.take_line() == "ready");
  CHECK(stream.take() == example);
  CHECK(stream.take() == example);
  CHECK_FALSE(stream.take());
  CHECK_FALSE(stream.is_cut());
  close(ends[1]);
  stream.read();
  CHECK(stream.is_cut());
  close(ends[0]);
}
