// TLS at one end and none at the other: neither waits for the other's answer.

#include "messages/transport/tls/first_bytes.hpp"
#include "tests/tls/nodes.hpp"

#include <catch2/catch_test_macros.hpp>
#include <sys/socket.h>

#include <array>

using namespace troupe;
using namespace troupe::test;
using transport::first_bytes;

namespace {

first_bytes kind_of(std::string_view text) {
  return transport::look_at(std::as_bytes(std::span{text}));
}

void send_text(const transport::socket& to, std::string_view text) {
  REQUIRE(::send(to.get(), text.data(), text.size(), MSG_NOSIGNAL) ==
          static_cast<ssize_t>(text.size()));
}

std::string handshake_complaint(tls_session& of) {
  try {
    while (of.handshake() == tls_wait::nothing) {
    }
    return "it waits";
  } catch (const transport::path_error& why) {
    return why.what();
  }
}

} // namespace

TEST_CASE("the first bytes tell TLS from anything else", "[tls]") {
  CHECK(kind_of("") == first_bytes::too_few);
  CHECK(kind_of("\x16") == first_bytes::too_few);
  CHECK(kind_of("\x16\x03") == first_bytes::tls);
  CHECK(kind_of("\x15\x03\x03") == first_bytes::tls);
  CHECK(kind_of("\x16\x02") == first_bytes::other);
  CHECK(kind_of("T") == first_bytes::other);
  CHECK(kind_of("TRPC") == first_bytes::other);
  CHECK(kind_of("GET /") == first_bytes::other);
}

TEST_CASE("an end under TLS begins as the first bytes say", "[tls]") {
  auto worker = worker_folder();
  tls_identity dials{worker.terms()};
  auto [here, there] = socket_pair();
  auto session = dials.connect(here.get(), "localhost");
  CHECK(session->handshake() == tls_wait::readable);
  std::array<char, transport::telling_bytes> begin;
  REQUIRE(::recv(there.get(), begin.data(), begin.size(), 0) ==
          static_cast<ssize_t>(begin.size()));
  CHECK(kind_of({begin.data(), begin.size()}) == first_bytes::tls);
}

TEST_CASE("a node without TLS answers one with it so that both know", "[tls]") {
  auto worker = worker_folder();
  tls_identity dials{worker.terms()};
  auto [here, there] = socket_pair();
  auto session = dials.connect(here.get(), "localhost");
  CHECK(session->handshake() == tls_wait::readable);
  send_text(there, transport::answer_to_tls);
  CHECK(handshake_complaint(*session) == transport::not_tls_line);
}

TEST_CASE("a node with TLS knows at once that the other end has none",
          "[tls]") {
  auto server = server_folder();
  tls_identity accepts{server.terms()};
  for (std::string_view hello :
       {"TRPC and thirty-two bytes more, all plain", "GET / HTTP/1.0\r\n\r\n",
        "CAF's own header has thirty-two bytes"}) {
    INFO(hello);
    auto [here, there] = socket_pair();
    auto session = accepts.accept(here.get());
    send_text(there, hello);
    CHECK(handshake_complaint(*session) == transport::not_tls_line);
  }
}

TEST_CASE("an end that answers in plain words is told of", "[tls]") {
  auto worker = worker_folder();
  tls_identity dials{worker.terms()};
  auto [here, there] = socket_pair();
  auto session = dials.connect(here.get(), "localhost");
  CHECK(session->handshake() == tls_wait::readable);
  send_text(there, "N, and why");
  CHECK(handshake_complaint(*session) == transport::not_tls_line);
}

TEST_CASE("an end that closes during the handshake is told of", "[tls]") {
  auto worker = worker_folder();
  tls_identity dials{worker.terms()};
  auto [here, there] = socket_pair();
  auto session = dials.connect(here.get(), "localhost");
  CHECK(session->handshake() == tls_wait::readable);
  there.shutdown();
  CHECK(handshake_complaint(*session) ==
        "the other end has closed the connection during the TLS handshake: its "
        "own line says why, if it speaks TLS at all");
}
