// A connection: what is received, however it comes.

#include "messages/transport/wire/socket.hpp"

#include <catch2/catch_test_macros.hpp>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <random>
#include <span>
#include <thread>
#include <vector>

using namespace troupe;
using transport::descriptor;
using transport::path_error;

namespace {

struct two_ends {
  descriptor near;
  descriptor far;
};

two_ends connect_loopback() {
  descriptor listener{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  auto* any = reinterpret_cast<sockaddr*>(&address);
  REQUIRE(::bind(listener.get(), any, length) == 0);
  REQUIRE(::listen(listener.get(), 1) == 0);
  REQUIRE(::getsockname(listener.get(), any, &length) == 0);
  two_ends out;
  out.near = descriptor{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  REQUIRE(::connect(out.near.get(), any, length) == 0);
  out.far = descriptor{::accept(listener.get(), nullptr, nullptr)};
  REQUIRE(out.far);
  return out;
}

std::vector<std::byte> random_bytes(size_t count, std::mt19937_64& random) {
  std::vector<std::byte> out(count);
  for (auto& one : out)
    one = static_cast<std::byte>(random());
  return out;
}

void send_all(transport::socket& line, std::vector<std::byte> what,
              size_t most) {
  for (size_t at = 0; at < what.size(); at += most) {
    iovec part[] = {{what.data() + at, std::min(most, what.size() - at)}};
    std::span<iovec> parts{part};
    line.send(parts, true);
  }
}

} // namespace

TEST_CASE("large and small buffers are filled in order, whatever the pieces in "
          "which the bytes come") {
  std::mt19937_64 random{7};
  // Around the size from which the receiver waits for many bytes.
  constexpr std::array<size_t, 9> sizes{64,      (256 << 10) - 1, 256 << 10,
                                        1,       (256 << 10) + 1, 1'700'000,
                                        100'000, 512 << 10,       64};
  for (size_t most : {1000, 65'536, 4 << 20}) {
    auto [near, far] = connect_loopback();
    transport::socket from{std::move(near)};
    transport::socket to{std::move(far)};
    std::vector<std::vector<std::byte>> sent;
    for (auto size : sizes)
      sent.push_back(random_bytes(size, random));
    std::thread sender{[&] {
      for (const auto& each : sent)
        send_all(from, each, most);
    }};
    auto same = true;
    for (const auto& each : sent) {
      std::vector<std::byte> got(each.size());
      // In two buffers, of which the first may be empty.
      auto cut = random() % got.size();
      iovec parts[] = {{got.data(), cut}, {got.data() + cut, got.size() - cut}};
      same = to.receive(parts, nullptr) && same && got == each;
    }
    sender.join();
    CHECK(same);
    from.shutdown();
    std::array<std::byte, 1> more;
    iovec rest[] = {{more.data(), more.size()}};
    CHECK_FALSE(to.receive(rest, nullptr));
  }
}

TEST_CASE("a connection that ends in a large buffer says so, and one that ends "
          "before it does not") {
  for (size_t sent : {0, 1000, 300'000}) {
    auto [near, far] = connect_loopback();
    transport::socket from{std::move(near)};
    transport::socket to{std::move(far)};
    std::thread sender{[&, sent = sent] {
      send_all(from, std::vector<std::byte>(sent), 1 << 20);
      from.shutdown();
    }};
    std::vector<std::byte> got(1'000'000);
    iovec parts[] = {{got.data(), got.size()}};
    if (sent == 0)
      CHECK_FALSE(to.receive(parts, nullptr));
    else
      CHECK_THROWS_AS(to.receive(parts, nullptr), path_error);
    sender.join();
  }
}

TEST_CASE("a receiver that waits for many bytes wakes when its own end is shut "
          "down") {
  auto [near, far] = connect_loopback();
  transport::socket from{std::move(near)};
  transport::socket to{std::move(far)};
  send_all(from, std::vector<std::byte>(1000), 1000);
  std::thread other{[&] {
    to.shutdown();
  }};
  std::vector<std::byte> got(1'000'000);
  iovec parts[] = {{got.data(), got.size()}};
  CHECK_THROWS_AS(to.receive(parts, nullptr), path_error);
  other.join();
}
