// What a node costs that was let in and means harm, and a server that lets
// nodes in and then says nothing.

#include "tests/process/hostile_target.hpp"
#include "tests/support/loopback.hpp"

#include <catch2/catch_test_macros.hpp>
#include <poll.h>

#include <thread>

using namespace troupe::testing;
using troupe::transport::path_error;

namespace {

/// Sends until the server closes. Returns how often it has sent.
size_t flood(member& it, size_t most,
             const std::function<std::string(size_t)>& next) {
  size_t sent = 0;
  while (sent < most && it.send(next(sent)))
    ++sent;
  return sent;
}

} // namespace

TEST_CASE("a member that asks or tells too much is sent away, with a line") {
  target it{false};
  auto before = memory_of(it.server().pid());
  SECTION("hellos") {
    member who{it.at, 1};
    auto hello = basp_message(3, who.door(), caf::make_message("hello"), 1);
    CHECK(flood(who, 100'000, [&](size_t) { return hello; }) < 100'000);
    it.server().await("127.0.0.1 sent more than 10 hellos a second");
  }
  SECTION("actors") {
    member who{it.at, 1};
    CHECK(who.say_hello().accepted());
    CHECK(flood(who, 2'000'000, [&](size_t number) {
            return basp_message(10 + number, who.gateway(),
                                caf::make_message(1.5));
          }) < 2'000'000);
    it.server().await("127.0.0.1 sent messages of more than 10000 actors");
  }
  SECTION("messages") {
    member who{it.at, 1};
    CHECK(who.say_hello().accepted());
    // They have no sender, so no unread answers pile up on a slow machine.
    auto one = basp_message(0, who.gateway(), caf::make_message(1.5));
    std::string many;
    for (auto left = 100; left > 0; --left)
      many += one;
    CHECK(flood(who, 100'000, [&](size_t) { return many; }) < 100'000);
    it.server().await("127.0.0.1 sent more than 60000 messages a second");
  }
  SECTION("questions, and hears no answer") {
    member who{it.at, 1};
    CHECK(who.say_hello().accepted());
    // The refusal tells the role again.
    troupe::proto::Hello long_one;
    long_one.set_role(std::string(250'000, 'x'));
    auto asks = basp_message(
      3, who.door(), caf::make_message(long_one.SerializeAsString()), 1);
    CHECK(flood(who, 1000, [&](size_t sent) {
            std::this_thread::sleep_for(
              std::chrono::milliseconds{sent < 90 ? 0 : 105});
            return asks;
          }) < 1000);
    it.server().await("127.0.0.1 sent nothing but requests, and has not read "
                      "\\d+ B of the answers");
  }
  CHECK(memory_of(it.server().pid(), "VmHWM") < before + 2 * most_growth);
  it.check_end_of_run();
}

TEST_CASE("a second connection of a node says nothing, and the first goes on") {
  target it{false};
  member first{it.at, 1};
  auto second = reach(it.at);
  troupe::transport::open_line(second, troupe::transport::purpose::control, "",
                               10);
  auto hello = basp_message(3, first.door(), caf::make_message("hello"), 1);
  CHECK(send_bytes(second, basp_handshake(1) + hello));
  CHECK(first.say_hello().accepted());
  CHECK(is_closed(second, 10));
  CHECK(first.say_hello().accepted());
  it.check_end_of_run();
}

TEST_CASE("a server that lets a node in and then says nothing is told of") {
  process_fixture on;
  auto door = listen_on(static_cast<uint16_t>(std::stoi(on.port())));
  auto worker = on.worker({"--connect-timeout", "2"});
  std::vector<int> open;
  pollfd next{door, POLLIN, 0};
  while (worker.running())
    if (::poll(&next, 1, 10) > 0) {
      open.push_back(::accept(door, nullptr, nullptr));
      CHECK(::send(open.back(), "Y", 1, MSG_NOSIGNAL) == 1);
    }
  check_end(worker, 1);
  INFO(worker.report());
  CHECK(worker.err().find("lets this one in, and then does not shake hands") !=
        std::string::npos);
  for (auto fd : open)
    ::close(fd);
  ::close(door);
}
