// What both ends say when one does not believe the other's certificate.

#include "tests/support/error_line.hpp"
#include "tests/tls/nodes.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <fcntl.h>

#include <functional>

using namespace troupe;
using namespace troupe::test;
using Catch::Matchers::ContainsSubstring;

namespace {

/// A node whose clock the test sets.
struct clocked_node {
  explicit clocked_node(const app::certificate_draft& draft) : folder(draft) {
    // nop
  }

  tls_identity make() {
    auto terms = folder.terms();
    terms.clock = [this] {
      return std::time(nullptr) + ahead;
    };
    return tls_identity{terms};
  }

  node_folder folder;
  std::time_t ahead = 0;
};

app::certificate_draft long_lived(app::certificate_draft draft) {
  draft.not_before -= 3 * year;
  draft.not_after += 3 * year;
  return draft;
}

std::string crt(const node_folder& of) {
  return (of / "tls.crt").string();
}

} // namespace

TEST_CASE("nodes of one CA know each other", "[tls]") {
  auto server = server_folder();
  auto worker = worker_folder();
  tls_identity accepts{server.terms()};
  tls_identity dials{worker.terms()};
  for (std::string host : {"localhost", "127.0.0.1"}) {
    tls_pair both{dials, accepts, host};
    auto lines = shake_hands(both);
    CHECK(lines.dialling == "");
    CHECK(lines.accepting == "");
    CHECK(both.accepting->peer().shown);
    CHECK(both.accepting->peer().name() == "worker-0");
    CHECK(both.accepting->peer().roles() == std::vector<std::string>{"worker"});
    CHECK(both.dialling->peer().roles() == std::vector<std::string>{"ps"});
    CHECK(both.dialling->peer().fingerprint() == accepts.own()->fingerprint);
    CHECK(both.accepting->peer().fingerprint() == dials.own()->fingerprint);
  }
}

TEST_CASE("a server's certificate that expires meanwhile is told of at both "
          "ends",
          "[tls]") {
  clocked_node server{server_draft()};
  clocked_node worker{long_lived(worker_draft())};
  auto accepts = server.make();
  auto dials = worker.make();
  server.ahead = worker.ahead = 100 * day;
  auto lines = meet(dials, accepts);
  CHECK_THAT(lines.dialling,
             ContainsSubstring("the other end's certificate, 'ps-0' of 'Test "
                               "CA', expired on ") &&
               ContainsSubstring("renew it (trainer_node pki renew)"));
  CHECK_THAT(lines.accepting,
             ContainsSubstring("our certificate " + crt(server.folder)) &&
               ContainsSubstring(": renew it (trainer_node pki renew)"));
}

TEST_CASE("a worker's certificate that expires meanwhile is told of at both "
          "ends",
          "[tls]") {
  clocked_node server{long_lived(server_draft())};
  clocked_node worker{worker_draft()};
  auto accepts = server.make();
  auto dials = worker.make();
  server.ahead = worker.ahead = 100 * day;
  auto lines = meet(dials, accepts);
  CHECK_THAT(lines.accepting, ContainsSubstring("'worker-0' of 'Test CA', "
                                                "expired on "));
  CHECK_THAT(lines.dialling,
             ContainsSubstring("our certificate " + crt(worker.folder)) &&
               ContainsSubstring(": renew it (trainer_node pki renew)"));
}

TEST_CASE("a clock that is wrong by a year is told of at both ends", "[tls]") {
  for (auto ahead : {year, -year}) {
    clocked_node server{server_draft()};
    clocked_node worker{long_lived(worker_draft())};
    worker.ahead = ahead;
    auto lines = meet(worker.make(), server.make());
    CHECK_THAT(lines.dialling,
               ContainsSubstring(ahead > 0 ? "', expired on "
                                           : "', is valid only from ") &&
                 ContainsSubstring("this machine's clock says ") &&
                 ContainsSubstring("unless one of the two clocks is wrong"));
    CHECK_THAT(lines.accepting,
               ContainsSubstring("so one of the two clocks is wrong"));
  }
}

TEST_CASE("a server's certificate of another CA is told of at both ends",
          "[tls]") {
  auto server =
    node_folder{draft_of("ps-0", {"ps"}, {"localhost"}), other_authority()};
  auto worker = worker_folder();
  auto lines = meet(tls_identity{worker.terms()}, tls_identity{server.terms()});
  CHECK_THAT(lines.dialling,
             ContainsSubstring("'ps-0' of 'Other CA', was issued by 'Other "
                               "CA', which is not in " +
                               (worker / "ca.crt").string() +
                               ": issue it with the CA of that file"));
  CHECK_THAT(lines.accepting,
             ContainsSubstring("the other end does not know the CA of our "
                               "certificate " +
                               crt(server) + " ('ps-0' of 'Other CA')"));
}

TEST_CASE("a worker's certificate of another CA is told of at both ends",
          "[tls]") {
  auto server = server_folder();
  auto worker =
    node_folder{draft_of("worker-0", {"worker"}), other_authority()};
  // It knows the server's CA as well.
  worker.write("ca.crt", to_pem(own_authority().certificate.get()) +
                           to_pem(other_authority().certificate.get()));
  auto lines = meet(tls_identity{worker.terms()}, tls_identity{server.terms()});
  CHECK_THAT(lines.accepting, ContainsSubstring("'worker-0' of 'Other CA', was "
                                                "issued by 'Other CA'"));
  CHECK_THAT(lines.dialling,
             ContainsSubstring("does not know the CA of our certificate " +
                               crt(worker)));
}

TEST_CASE("a CA of the same name is another one", "[tls]") {
  auto double_of = make_holder(authority_draft("Test CA"), nullptr);
  auto server = node_folder{draft_of("ps-0", {"ps"}, {"localhost"}), double_of};
  auto lines =
    meet(tls_identity{worker_folder().terms()}, tls_identity{server.terms()});
  CHECK_THAT(lines.accepting, ContainsSubstring("does not know the CA"));
}

TEST_CASE("a server under another name is told of at both ends", "[tls]") {
  auto server = server_folder();
  auto worker = worker_folder();
  tls_identity accepts{server.terms()};
  tls_identity dials{worker.terms()};
  for (std::string host : {"node7", "10.0.0.7", "fe80::1%eth0"}) {
    auto lines = meet(dials, accepts, host);
    CHECK_THAT(lines.dialling,
               ContainsSubstring("is for localhost, 127.0.0.1, and '" + host +
                                 "' was dialled") &&
                 ContainsSubstring("issue it again with --host " + host));
    CHECK_THAT(lines.accepting,
               ContainsSubstring("has dialled another name") &&
                 ContainsSubstring(crt(server)) &&
                 ContainsSubstring("is for localhost, 127.0.0.1"));
  }
}

TEST_CASE("the common name is no name of a host", "[tls]") {
  auto server = node_folder{draft_of("localhost", {"ps"})};
  auto lines =
    meet(tls_identity{worker_folder().terms()}, tls_identity{server.terms()});
  CHECK_THAT(lines.dialling, ContainsSubstring("is for no host"));
}

TEST_CASE("a worker's certificate cannot serve", "[tls]") {
  auto worker = worker_folder();
  auto node = make_holder(draft_of("worker-0", {"worker"}, {"localhost"}),
                          &own_authority());
  auto check = [&](const char* fault) {
    node_folder server{node, own_authority()};
    auto lines =
      meet(tls_identity{worker.terms()}, tls_identity{server.terms()});
    CHECK_THAT(lines.dialling, ContainsSubstring(fault));
    CHECK_THAT(
      lines.accepting,
      ContainsSubstring("does not accept the role of our certificate " +
                        crt(server)) &&
        ContainsSubstring("which is worker"));
  };
  check("is not made for servers: its extended key usage needs serverAuth");
  // One of another tool, which is for anything.
  auto* made = node.certificate.get();
  X509_EXTENSION_free(
    X509_delete_ext(made, X509_get_ext_by_NID(made, NID_ext_key_usage, -1)));
  X509_sign(made, own_authority().key.get(), EVP_sha256());
  check("has the role worker and not ps, which a server needs");
}

TEST_CASE("another program's certificate without a role is refused", "[tls]") {
  auto server = server_folder();
  tls_identity accepts{server.terms()};
  auto [here, there] = socket_pair();
  auto session = accepts.accept(here.get());
  auto client = make_holder(draft_of("curl"), &own_authority());
  transport::context_ptr context{SSL_CTX_new(TLS_client_method())};
  SSL_CTX_use_certificate(context.get(), client.certificate.get());
  SSL_CTX_use_PrivateKey(context.get(), client.key.get());
  transport::ssl_ptr ssl{SSL_new(context.get())};
  SSL_set_fd(ssl.get(), there.get());
  ::fcntl(there.get(), F_SETFL, O_NONBLOCK);
  auto line = error_line<transport::path_error>([&] {
    for (auto i = 0; i < 3; ++i) {
      SSL_connect(ssl.get());
      session->handshake();
    }
  });
  CHECK_THAT(line, ContainsSubstring("'curl' of 'Test CA', says no role") &&
                     ContainsSubstring("troupe-role:worker"));
}

TEST_CASE("who shows no certificate is told what he needs", "[tls]") {
  auto server = server_folder();
  tls_terms alone;
  alone.ca = server / "ca.crt";
  auto lines = meet(tls_identity{alone}, tls_identity{server.terms()});
  CHECK_THAT(lines.accepting,
             ContainsSubstring("the other end showed no certificate") &&
               ContainsSubstring("--tls-dir"));
  CHECK_THAT(lines.dialling,
             ContainsSubstring("this node showed no certificate") &&
               ContainsSubstring("--tls-dir"));
}

TEST_CASE("with TLS 1.2 both ends say it too", "[tls]") {
  auto server = server_folder();
  auto terms = server.terms();
  terms.lowest = transport::tls_version::v1_2;
  tls_identity accepts{terms};
  auto worker =
    node_folder{draft_of("worker-0", {"worker"}), other_authority()};
  worker.write("ca.crt", to_pem(own_authority().certificate.get()) +
                           to_pem(other_authority().certificate.get()));
  auto theirs = worker.terms();
  theirs.lowest = transport::tls_version::v1_2;
  auto lines = meet(tls_identity{theirs}, accepts);
  CHECK_THAT(lines.accepting, ContainsSubstring("was issued by 'Other CA'"));
  CHECK_THAT(lines.dialling, ContainsSubstring("does not know the CA"));
}

TEST_CASE("a pinned certificate needs neither a CA nor a name", "[tls]") {
  auto server = server_folder();
  auto own = server.terms();
  own.ca.clear();
  tls_identity accepts{own};
  CHECK_FALSE(accepts.can_connect());
  tls_terms pinned;
  pinned.pin = accepts.own()->fingerprint;
  tls_identity dials{pinned};
  CHECK_FALSE(dials.can_accept());
  CHECK(meet(dials, accepts, "10.1.2.3").none());

  pinned.pin = std::string(64, 'a');
  auto lines = meet(tls_identity{pinned}, accepts);
  CHECK_THAT(lines.dialling,
             ContainsSubstring("has the SHA-256 " + accepts.own()->fingerprint +
                               ", and --tls-pin says " + pinned.pin));
  CHECK_THAT(
    lines.accepting,
    ContainsSubstring("does not mean our certificate " + crt(server)) &&
      ContainsSubstring(accepts.own()->fingerprint));
}

TEST_CASE("in light mode a certificate may be shown", "[tls]") {
  auto server = server_folder();
  auto own = server.terms();
  own.asks_for_certificate = false;
  tls_identity accepts{own};
  tls_terms alone;
  alone.ca = server / "ca.crt";
  tls_pair stranger{tls_identity{alone}, accepts};
  CHECK(shake_hands(stranger).none());
  CHECK_FALSE(stranger.accepting->peer().shown);
  CHECK(stranger.accepting->peer().roles().empty());
  tls_pair known{tls_identity{worker_folder().terms()}, accepts};
  CHECK(shake_hands(known).none());
  CHECK(known.accepting->peer().name() == "worker-0");
}

TEST_CASE("a chain with an intermediate CA is believed", "[tls]") {
  auto middle = make_holder(authority_draft("Middle CA"), &own_authority());
  auto server = server_folder();
  auto node = make_holder(draft_of("worker-0", {"worker"}), &middle);
  node_folder worker{node, own_authority()};
  worker.write("tls.crt", to_pem(node.certificate.get()) +
                            to_pem(middle.certificate.get()));
  CHECK(
    meet(tls_identity{worker.terms()}, tls_identity{server.terms()}).none());
  // Whoever believes the one in the middle needs no more.
  worker.write("tls.crt", to_pem(node.certificate.get()));
  worker.write("ca.crt", to_pem(middle.certificate.get()) +
                           to_pem(own_authority().certificate.get()));
  server.write("ca.crt", to_pem(middle.certificate.get()) +
                           to_pem(own_authority().certificate.get()));
  CHECK(
    meet(tls_identity{worker.terms()}, tls_identity{server.terms()}).none());
}
