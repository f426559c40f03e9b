// Bytes under TLS: what is sent comes, in both directions at once, and how a
// connection ends.

#include "tests/tls/nodes.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>

#include <atomic>
#include <cstring>
#include <optional>
#include <span>
#include <thread>

using namespace troupe;
using namespace troupe::test;
using Catch::Matchers::ContainsSubstring;

namespace {

/// A server and a worker, ready to connect.
struct two_nodes {
  node_folder server = server_folder();
  node_folder worker = worker_folder();
  tls_identity accepts{server.terms()};
  tls_identity dials{worker.terms()};
};

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span{text});
}

void wait_for(int fd, tls_wait wait) {
  if (wait == tls_wait::nothing)
    return;
  pollfd one{
    fd, static_cast<short>(wait == tls_wait::readable ? POLLIN : POLLOUT), 0};
  ::poll(&one, 1, 1000);
}

void write_all(tls_session& to, int fd, std::span<const std::byte> from) {
  while (!from.empty()) {
    auto moved = to.write(from);
    from = from.subspan(moved.bytes);
    wait_for(fd, moved.wait);
  }
}

/// As many bytes as come until the other end says that no more will.
std::string read_all(tls_session& from, int fd, size_t size) {
  std::string out(size, '\0');
  auto to = std::as_writable_bytes(std::span{out});
  while (!to.empty()) {
    auto moved = from.read(to);
    to = to.subspan(moved.bytes);
    if (moved.ended)
      break;
    wait_for(fd, moved.wait);
  }
  out.resize(size - to.size());
  return out;
}

std::string pattern(size_t size, uint8_t seed) {
  std::string out(size, '\0');
  for (size_t i = 0; i < size; ++i)
    out[i] = static_cast<char>(i * 31 + (i >> 12) + seed);
  return out;
}

} // namespace

TEST_CASE("what is written is read, and then the end", "[tls]") {
  two_nodes nodes;
  tls_pair both{nodes.dials, nodes.accepts};
  REQUIRE(shake_hands(both).none());
  std::string text = "thirty-six bytes open a connection.";
  CHECK(both.dialling->write(bytes_of(text)).bytes == text.size());
  std::string got(text.size() + 10, '\0');
  auto moved = both.accepting->read(std::as_writable_bytes(std::span{got}));
  CHECK(moved.bytes == text.size());
  CHECK(moved.wait == tls_wait::readable);
  CHECK_FALSE(moved.ended);
  CHECK(got.substr(0, text.size()) == text);
  CHECK(both.dialling->shut() == tls_wait::nothing);
  CHECK(both.accepting->read(std::as_writable_bytes(std::span{got})).ended);
  // One direction has ended, the other goes on.
  CHECK(both.accepting->write(bytes_of(text)).bytes == text.size());
  CHECK(read_all(*both.dialling, both.sockets.first.get(), text.size()) ==
        text);
}

TEST_CASE("bytes that were read ahead are known", "[tls]") {
  two_nodes nodes;
  tls_pair both{nodes.dials, nodes.accepts};
  REQUIRE(shake_hands(both).none());
  CHECK_FALSE(both.accepting->pending());
  for (std::string text : {"one", "two"})
    both.dialling->write(bytes_of(text));
  std::byte one;
  CHECK(both.accepting->read({&one, 1}).bytes == 1);
  CHECK(both.accepting->pending());
  std::string rest(5, '\0');
  auto moved = both.accepting->read(std::as_writable_bytes(std::span{rest}));
  CHECK(moved.bytes == 5);
  CHECK(rest == "netwo");
  CHECK_FALSE(both.accepting->pending());
}

TEST_CASE("nothing waits: a full or an empty socket is told of", "[tls]") {
  two_nodes nodes;
  tls_pair both{nodes.dials, nodes.accepts};
  REQUIRE(shake_hands(both).none());
  auto much = pattern(64 << 20, 1);
  auto sent = both.dialling->write(bytes_of(much));
  CHECK(sent.wait == tls_wait::writable);
  CHECK(sent.bytes > 0);
  CHECK(sent.bytes < much.size());
  std::byte none;
  CHECK(both.dialling->read({&none, 1}).wait == tls_wait::readable);
}

TEST_CASE("two threads of each end send and receive at once", "[tls]") {
  two_nodes nodes;
  for (auto lowest :
       {transport::tls_version::v1_2, transport::tls_version::v1_3}) {
    auto server = nodes.server.terms();
    auto worker = nodes.worker.terms();
    server.lowest = worker.lowest = lowest;
    tls_identity accepts{server};
    tls_identity dials{worker};
    tls_pair both{dials, accepts};
    REQUIRE(shake_hands(both).none());
    constexpr size_t size = (6 << 20) + 4321;
    auto up = pattern(size, 7);
    auto down = pattern(size, 99);
    auto dialling = both.sockets.first.get();
    auto accepting = both.sockets.second.get();
    std::string came_up, came_down;
    {
      std::jthread first{[&] {
        write_all(*both.dialling, dialling, bytes_of(up));
      }};
      std::jthread second{[&] {
        write_all(*both.accepting, accepting, bytes_of(down));
      }};
      std::jthread third{[&] {
        came_down = read_all(*both.dialling, dialling, size);
      }};
      came_up = read_all(*both.accepting, accepting, size);
    }
    CHECK(came_up == up);
    CHECK(came_down == down);
  }
}

TEST_CASE("a handshake without the other end's step says what to wait for",
          "[tls]") {
  two_nodes nodes;
  tls_pair both{nodes.dials, nodes.accepts};
  CHECK(both.accepting->handshake() == tls_wait::readable);
  CHECK(both.dialling->handshake() == tls_wait::readable);
  CHECK(both.dialling->handshake() == tls_wait::readable);
  CHECK(shake_hands(both).none());
}

TEST_CASE("a connection that ends without a word is an error", "[tls]") {
  two_nodes nodes;
  std::optional<tls_pair> both;
  both.emplace(nodes.dials, nodes.accepts);
  REQUIRE(shake_hands(*both).none());
  both->dialling->write(bytes_of("last"));
  both->sockets.first.shutdown();
  std::string got(4, '\0');
  CHECK(both->accepting->read(std::as_writable_bytes(std::span{got})).bytes ==
        4);
  const auto* line =
    "connection lost: the other end has ended it without a word";
  CHECK(reading_complaint(*both->accepting) == line);
  CHECK(reading_complaint(*both->accepting) == line); // And again.
  CHECK(both->accepting->shut() == tls_wait::nothing);
}

TEST_CASE("bytes that came before an error are not lost", "[tls]") {
  two_nodes nodes;
  tls_pair both{nodes.dials, nodes.accepts};
  REQUIRE(shake_hands(both).none());
  both.dialling->write(bytes_of("last"));
  both.sockets.first.shutdown();
  std::string got(40, '\0');
  auto moved = both.accepting->read(std::as_writable_bytes(std::span{got}));
  CHECK(moved.bytes == 4);
  CHECK(moved.wait == tls_wait::nothing);
  CHECK_THAT(reading_complaint(*both.accepting),
             ContainsSubstring("without a word"));
}

TEST_CASE("a broken connection raises no signal", "[tls]") {
  two_nodes nodes;
  tls_pair both{nodes.dials, nodes.accepts};
  REQUIRE(shake_hands(both).none());
  both.accepting.reset();
  { auto gone = std::move(both.sockets.second); }
  try {
    both.dialling->write(bytes_of("to nobody"));
    FAIL("nobody was there");
  } catch (const transport::path_error& why) {
    CHECK(std::string{why.what()} == "connection lost: Broken pipe");
  }
}

TEST_CASE("a refusal is heard by a writer, too", "[tls]") {
  two_nodes nodes;
  node_folder other{draft_of("worker-0", {"worker"}), other_authority()};
  other.write("ca.crt", to_pem(own_authority().certificate.get()) +
                          to_pem(other_authority().certificate.get()));
  tls_identity dials{other.terms()};
  tls_pair both{dials, nodes.accepts};
  auto lines = shake_hands(both);
  CHECK(lines.dialling == "");
  CHECK(lines.accepting != "");
  both.accepting.reset();
  { auto gone = std::move(both.sockets.second); }
  try {
    both.dialling->write(bytes_of("an opening"));
    FAIL("it was refused");
  } catch (const transport::path_error& why) {
    CHECK_THAT(why.what(), ContainsSubstring("does not know the CA of our "
                                             "certificate"));
  }
}

TEST_CASE("only an older version of TLS is told of at both ends", "[tls]") {
  two_nodes nodes;
  tls_pair both{nodes.dials, nodes.accepts};
  // A client that has at most 1.2, which no terms of ours ask for.
  transport::context_ptr old{SSL_CTX_new(TLS_client_method())};
  SSL_CTX_set_max_proto_version(old.get(), TLS1_2_VERSION);
  transport::ssl_ptr client{SSL_new(old.get())};
  SSL_set_fd(client.get(), both.sockets.first.get());
  ::fcntl(both.sockets.first.get(), F_SETFL, O_NONBLOCK);
  SSL_connect(client.get());
  complaints lines;
  try {
    both.accepting->handshake();
  } catch (const transport::path_error& why) {
    lines.accepting = why.what();
  }
  CHECK_THAT(lines.accepting,
             ContainsSubstring("only an older version of TLS: --tls-min 1.2"));
}

TEST_CASE("where the kernel has no TLS of its own, the switch changes nothing",
          "[tls]") {
  two_nodes nodes;
  auto server = nodes.server.terms();
  auto worker = nodes.worker.terms();
  server.in_kernel = worker.in_kernel = true;
  tls_identity accepts{server};
  tls_identity dials{worker};
  tls_pair both{dials, accepts};
  REQUIRE(shake_hands(both).none());
  auto text = pattern(100'000, 3);
  auto fd = both.sockets.first.get();
  write_all(*both.dialling, fd, bytes_of(text));
  CHECK(read_all(*both.accepting, both.sockets.second.get(), text.size()) ==
        text);
}
