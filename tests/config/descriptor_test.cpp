// An open file has one owner, and is closed with it.

#include "config/text/descriptor.hpp"

#include <catch2/catch_test_macros.hpp>
#include <fcntl.h>
#include <unistd.h>

#include <utility>

using troupe::config::descriptor;

namespace {

bool is_open(int fd) {
  return fcntl(fd, F_GETFD) >= 0;
}

} // namespace

TEST_CASE("a descriptor is closed with its last owner") {
  auto fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
  REQUIRE(fd >= 0);
  descriptor last;
  CHECK(!last);
  {
    descriptor first{fd};
    last = std::move(first);
  }
  CHECK(last.get() == fd);
  CHECK(is_open(fd));
  last = {};
  CHECK(!is_open(fd));
}
