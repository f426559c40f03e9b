// Which signals ask a process to stop, and which of them are haste.

#include "apps/startup/stop_signals.hpp"

#include <catch2/catch_test_macros.hpp>

using namespace troupe::app;
using namespace std::chrono_literals;
using meaning = stop_requests::meaning;

namespace {

const stop_requests::time_point start{};

} // namespace

TEST_CASE("a second SIGINT or SIGTERM of a person is haste") {
  for (auto number : {SIGINT, SIGTERM}) {
    stop_requests uut;
    CHECK_FALSE(uut.any());
    CHECK(uut.interpret_signal(SIGINT, start) == meaning::stop);
    CHECK(uut.any());
    CHECK(uut.interpret_signal(number, start + 1s) == meaning::haste);
  }
}

TEST_CASE("two signals at once are one request") {
  stop_requests uut;
  CHECK(uut.interpret_signal(SIGTERM, start) == meaning::stop);
  CHECK(uut.interpret_signal(SIGINT, start + 50ms) == meaning::nothing);
  CHECK(uut.interpret_signal(SIGTERM, start + 60ms) == meaning::nothing);
}

TEST_CASE("a terminal that is closed is no haste, however often it says so") {
  stop_requests uut;
  CHECK(uut.interpret_signal(SIGHUP, start) == meaning::stop);
  CHECK(uut.interpret_signal(SIGHUP, start + 1s) == meaning::nothing);
  CHECK(uut.interpret_signal(SIGUSR1, start + 2s) == meaning::nothing);
  CHECK(uut.interpret_signal(SIGINT, start + 3s) == meaning::haste);
}

TEST_CASE("a SIGHUP that was ignored stays ignored") {
  auto has = [](int number) {
    auto all = stop_signals();
    return sigismember(&all, number) == 1;
  };
  auto before = std::signal(SIGHUP, SIG_DFL);
  CHECK(has(SIGHUP));
  std::signal(SIGHUP, SIG_IGN);
  CHECK_FALSE(has(SIGHUP));
  CHECK(has(SIGTERM));
  std::signal(SIGHUP, before);
}
