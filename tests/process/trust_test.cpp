// Clusters whose nodes show each other certificates or a token, and those who
// show the wrong ones.

#include "messages/transport/tls/kernel_tls.hpp"
#include "tests/process/peers.hpp"
#include "tests/process/trusted_cluster.hpp"

#include <catch2/catch_test_macros.hpp>

#include <csignal>
#include <fstream>
#include <regex>

using namespace troupe::testing;
namespace fs = std::filesystem;

namespace {

const flags short_run{"--workers", "1", "--epochs", "1", "--max-steps", "3"};

/// A node that the server does not let in ends with such a line.
void check_refused(process_fixture& on, const flags& more,
                   const std::string& line) {
  INFO(line);
  auto node = on.worker(impatient + more);
  check_end(node, 1);
  INFO(node.report());
  CHECK(std::regex_search(words_of(node), std::regex{line}));
}

} // namespace

TEST_CASE("a cluster of certificates trains over each path, and its log is "
          "replayed") {
  for (std::string path : {"stream", "chunked", "auto"}) {
    INFO(path);
    trusted_cluster it{true};
    auto& on = it.on;
    auto server = on.listening_server(
      it.dir("ps-0", "ps") +
      flags{"--workers", "2", "--epochs", "2", "--transport", path});
    auto certificate = it.dir("workers", "worker,evaluator");
    auto evaluator = on.evaluator(certificate + flags{"--threads", "1"});
    auto first = on.worker(certificate + flags{"--threads", "1"});
    auto second = on.worker(certificate + flags{"--threads", "1"});
    for (auto* one : {&server, &first, &second, &evaluator})
      check_end(*one, 0);
    CHECK(first.said("over " + (path == "auto" ? "shm" : path)));
    check_completed(on, 2);
  }
}

TEST_CASE("shards and peers show certificates, too") {
  SECTION("shards") {
    trusted_cluster it;
    auto server = it.dir("ps", "ps");
    sharded_server all{it.on, 2, server + short_run};
    auto shard = it.on.shard(1, with_shards(2) + server);
    auto worker = it.on.worker(it.dir("w", "worker") + impatient);
    all.lead.await("completed");
  }
  SECTION("peers") {
    trusted_cluster it;
    auto all = start_peers(it.on, 2,
                           it.dir("peers", "ps,worker") +
                             flags{"--policy", "sync", "--epochs", "1"});
    check_ends_of(all, 0);
  }
}

TEST_CASE("with --ktls a cluster trains, and says where the kernel cannot") {
  trusted_cluster it;
  auto& on = it.on;
  auto server =
    on.listening_server(it.dir("ps", "ps") + short_run + flags{"--ktls"});
  auto worker = on.worker(it.dir("w", "worker") + flags{"--ktls"});
  for (auto* one : {&server, &worker}) {
    check_end(*one, 0);
    CHECK(one->said("ktls  off: ") ==
          !troupe::transport::why_no_kernel_tls().empty());
  }
}

TEST_CASE("without certificates --ktls says that nothing is encrypted") {
  process_fixture on;
  auto server = on.listening_server(short_run + flags{"--ktls"});
  CHECK(server.said("ktls  off: connections are not encrypted"));
}

TEST_CASE("a token is enough where the server has a certificate") {
  trusted_cluster it;
  auto& on = it.on;
  auto token = it.token("token", "0123456789abcdef0123");
  auto server = on.listening_server(it.own("ps-0") + token +
                                    flags{"--workers", "2", "--epochs", "1"});
  auto ca = it.folder("ca");
  auto shown = it.pki({"show", ca + "/ps-0/tls.crt"});
  std::smatch pin;
  REQUIRE(std::regex_search(shown, pin, std::regex{"[0-9a-f]{64}"}));
  flags by_ca{"--tls-ca", ca + "/ca.crt"}, by_pin{"--tls-pin", pin.str()};
  check_refused(on, by_ca + it.token("other", "another token of the run"),
                "the token is not that of the run");
  check_refused(on, by_pin + it.token("other", "another token of the run"),
                "the token is not that of the run");
  auto first = on.worker(by_ca + token + flags{"--threads", "1"});
  auto second = on.worker(by_pin + token + flags{"--threads", "1"});
  for (auto* one : {&server, &first, &second})
    check_end(*one, 0);
  CHECK(server.said("sent away +127.0.0.1: the token is not"));
}

TEST_CASE("who shows the wrong certificate, or none, is told what to do") {
  trusted_cluster it;
  auto& on = it.on;
  auto server = on.listening_server(it.dir("ps-0", "ps") +
                                    flags{"--workers", "1", "--epochs", "1"});
  it.pki({"init", "--out", it.folder("other")});
  check_refused(on, it.dir("w", "worker", "other"), "issued by");
  auto ca = it.folder("ca");
  auto stranger = it.dir("stranger", "worker", "other").back();
  auto both = it.folder("both.crt");
  std::ofstream{both} << slurp(fs::path{ca} / "ca.crt")
                      << slurp(fs::path{stranger} / "ca.crt");
  check_refused(on,
                {"--tls-cert", stranger + "/tls.crt", "--tls-key",
                 stranger + "/tls.key", "--tls-ca", both},
                "does not know the CA of our certificate");
  check_refused(on,
                flags{"--tls-ca", ca + "/ca.crt"} +
                  it.token("token", "0123456789abcdef"),
                "certificate");
  check_refused(on, {}, "TLS");
  auto evaluator = on.worker(impatient + it.dir("e", "evaluator"));
  check_end(evaluator, 2);
  CHECK(evaluator.err().find("is not for the role worker") !=
        std::string::npos);
  auto worker = on.worker(it.dir("right", "worker") + flags{"--threads", "1"});
  check_end(server, 0);
  check_end(worker, 0);
}

TEST_CASE("who wants TLS of a server without it is told so, at both ends") {
  trusted_cluster it;
  auto& on = it.on;
  auto server = on.listening_server({"--workers", "1", "--epochs", "1"});
  check_refused(on, it.dir("w", "worker"), "does not speak TLS");
  auto worker = on.worker({"--threads", "1"});
  check_end(server, 0);
  check_end(worker, 0);
  CHECK(server.said("sent away +127.0.0.1"));
}

TEST_CASE("a new certificate is used while the run goes on") {
  trusted_cluster it;
  auto& on = it.on;
  auto server = on.listening_server(
    it.dir("ps-0", "ps") +
    flags{"--workers", "1", "--epochs", "1000", "--policy", "async"});
  auto certificate = it.dir("workers", "worker");
  auto worker = on.worker(certificate + flags{"--threads", "1"});
  on.await(server, "training", is_kind("update"));
  it.pki({"renew", it.folder("ca") + "/ps-0"});
  auto second = on.worker(certificate + flags{"--threads", "1"});
  second.await("connected");
  CHECK(server.said("certificate +.*ps-0"));
  server.signal(SIGINT);
  check_end(server, 75);
  check_end(worker, 0);
  check_end(second, 0);
}
