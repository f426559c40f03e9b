// Handshakes that break off or go wrong at each of their states.
//
// TROUPE_HOSTILE_HANDSHAKES of them at each end, from TROUPE_HOSTILE_FIRST on.

#include "config/text/text.hpp"
#include "tests/support/wished.hpp"
#include "tests/tls/nodes.hpp"

#include <catch2/catch_test_macros.hpp>
#include <malloc.h>
#include <sys/socket.h>

#include <random>

using namespace troupe;
using namespace troupe::test;

namespace {

using dice = std::mt19937_64;

constexpr uint64_t in_ci = 1500;

/// Bytes that this process may have more in use after all of them than after
/// the first few.
constexpr size_t most_growth = 4 << 20;

size_t bytes_in_use() {
  return mallinfo2().uordblks;
}

/// Some bytes are others, are left out or are added.
void spoil(std::string& bytes, dice& random) {
  if (bytes.empty())
    bytes = "?";
  auto at = random() % bytes.size();
  switch (random() % 6) {
  case 0:
    bytes[at] = static_cast<char>(random());
    break;
  case 1:
    bytes.resize(at);
    break;
  case 2:
    bytes.insert(at, std::string(random() % 300, static_cast<char>(random())));
    break;
  case 3: // A length, perhaps.
    bytes[at] = '\xff';
    break;
  case 4:
    bytes += bytes;
    break;
  default:
    for (auto i = random() % 50; i > 0; --i)
      bytes[random() % bytes.size()] = static_cast<char>(random());
  }
}

/// What the session has written.
std::string take_sent(const transport::socket& from) {
  std::string out(1 << 16, '\0');
  auto got = ::recv(from.get(), out.data(), out.size(), MSG_DONTWAIT);
  out.resize(got > 0 ? static_cast<size_t>(got) : 0);
  return out;
}

void put(const transport::socket& to, const std::string& bytes) {
  [[maybe_unused]] auto sent =
    ::send(to.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
}

/// False when it has ended with a line.
bool goes_on(tls_session& session) {
  try {
    if (session.handshake() != tls_wait::nothing)
      return true;
    std::byte some[100];
    return !session.read(some).ended;
  } catch (const transport::path_error& why) {
    std::string line = why.what();
    REQUIRE_FALSE(line.empty());
    REQUIRE_FALSE(config::has_control_character(line));
    return false;
  }
}

/// A handshake in which the bytes of step `spoilt` are not as they should be on
/// their way to the end under attack, or the first ones are mere noise. Returns
/// whether that end has believed them.
bool attack(const tls_identity& dials, const tls_identity& accepts,
            dice& random) {
  auto near = socket_pair();
  auto far = socket_pair();
  auto attacked = accepts.accept(near.first.get());
  auto other = dials.connect(far.first.get(), "localhost");
  if (random() % 2 == 0) {
    attacked = dials.connect(near.first.get(), "localhost");
    other = accepts.accept(far.first.get());
  }
  auto spoilt = random() % 3;
  auto open = true;
  for (uint64_t step = 0; step < 5 && open; ++step) {
    goes_on(*other);
    auto bytes = take_sent(far.second);
    if (step == spoilt)
      spoil(bytes, random);
    put(near.second, bytes);
    open = goes_on(*attacked);
    put(far.second, take_sent(near.second));
  }
  if (random() % 4 == 0)
    near.second.shutdown();
  return goes_on(*attacked);
}

} // namespace

TEST_CASE("malformed handshakes end with a line and leave nothing", "[tls]") {
  auto server = server_folder();
  auto worker = worker_folder();
  tls_identity accepts{server.terms()};
  tls_identity dials{worker.terms()};
  auto first = testing::wished("TROUPE_HOSTILE_FIRST", 1);
  auto count = testing::wished("TROUPE_HOSTILE_HANDSHAKES", in_ci);
  size_t before = 0;
  for (auto seed = first; seed < first + count; ++seed) {
    INFO("seed " << seed);
    dice random{seed};
    attack(dials, accepts, random);
    if (seed == first + 100)
      before = bytes_in_use();
  }
  if (count > 100)
    CHECK(bytes_in_use() < before + most_growth);
  // Right ones still work.
  CHECK(meet(dials, accepts).none());
}

TEST_CASE("noise ends with a line and takes little memory", "[tls]") {
  auto server = server_folder();
  tls_identity accepts{server.terms()};
  auto count = testing::wished("TROUPE_HOSTILE_HANDSHAKES", in_ci);
  for (uint64_t seed = 1; seed <= count; ++seed) {
    INFO("seed " << seed);
    dice random{seed};
    auto [here, there] = socket_pair();
    auto session = accepts.accept(here.get());
    std::string noise(random() % 400, '\0');
    for (auto& each : noise)
      each = static_cast<char>(random());
    if (seed % 2 == 0) // The head of a record, then of a hello.
      noise.insert(0, std::string{"\x16\x03\x01\x02\x00\x01\xff\xff\xff", 9});
    put(there, noise);
    goes_on(*session);
  }
}

TEST_CASE("an announced length costs a stranger's end little", "[tls]") {
  auto server = server_folder();
  tls_identity accepts{server.terms()};
  std::vector<std::pair<transport::socket, transport::socket>> lines;
  std::vector<std::unique_ptr<tls_session>> all;
  constexpr size_t strangers = 64;
  auto before = bytes_in_use();
  for (size_t i = 0; i < strangers; ++i) {
    lines.push_back(socket_pair());
    all.push_back(accepts.accept(lines.back().first.get()));
    // A record of 16 KiB with a hello of 128 KiB, of which nine bytes come.
    put(lines.back().second,
        std::string{"\x16\x03\x01\x40\x00\x01\x02\x00\x00", 9});
    goes_on(*all.back());
  }
  // Far below the MiB that anything may cost before it is trusted.
  CHECK((bytes_in_use() - before) / strangers < 256 << 10);
}
