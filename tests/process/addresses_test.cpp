// Where nodes listen, what they tell others, and whom they do not dial. All on
// loopback; tests of address translation are in translation_test.cpp.

#include "tests/process/hosts_file.hpp"
#include "tests/process/peers.hpp"
#include "tests/process/process_fixture.hpp"

#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <fstream>
#include <regex>

using namespace troupe::testing;

namespace {

const flags short_run{"--max-steps", "3"};

void require_ipv6() {
  if (!std::ifstream{"/proc/net/if_inet6"})
    SKIP("this machine has no IPv6");
}

/// What a process said as a whole, on one line.
std::string words_of(const child& who) {
  return std::regex_replace(who.out() + who.err(), std::regex{"\\s+"}, " ");
}

/// The process ends so, with one line that has these words.
void check_refusal(child& who, int status, const std::string& line) {
  check_end(who, status);
  INFO(who.report());
  INFO(line);
  CHECK(who.err().find(line) != std::string::npos);
  CHECK(std::ranges::count(who.err(), '\n') == 1);
}

const std::string advice =
  "is no loopback address, and connections are neither encrypted nor "
  "authenticated: give --tls-dir or --token-file with --tls-ca "
  "(docs/security.md), use 127.0.0.1, or give --insecure-network";

} // namespace

TEST_CASE("servers, workers, shards and peers meet over IPv6") {
  require_ipv6();
  process_fixture on;
  SECTION("a lead and a shard") {
    auto lead =
      on.listening_server(short_run + with_shards(2) +
                          flags{"--host", "::1", "--rank", "0", "--workers",
                                "2", "--transport", "stream"});
    auto shard = on.shard(1, with_shards(2) +
                               flags{"--host", "[::1]", "--listen", "[::1]:0"});
    auto all = workers_of(on, 2, {"--host", "::1"});
    for (auto* one : {&lead, &shard, &all[0], &all[1]})
      check_end(*one, 0);
    CHECK(shard.said("listening +on \\[::1\\]:[0-9]+\n"));
    CHECK(all[0].said("over stream"));
  }
  SECTION("families that differ") {
    auto lead = on.listening_server(short_run + with_shards(2) +
                                    flags{"--rank", "0", "--workers", "1"});
    auto shard = on.shard(1, with_shards(2) + flags{"--listen", "[::1]:0"});
    auto worker = on.worker({"--transport", "stream"});
    for (auto* one : {&lead, &shard, &worker})
      check_end(*one, 0);
  }
  SECTION("peers") {
    auto all = start_peers(on, 2, {"--policy", "sync", "--epochs", "1"},
                           "tcp://[::1]:" + on.port());
    check_ends_of(all, 0);
    CHECK(all[1].said("listening +on \\[::1\\]:[0-9]+\n"));
  }
}

TEST_CASE("a name of several addresses is listened at, and dialled, as a "
          "whole") {
  require_ipv6();
  process_fixture on;
  SECTION("all are this machine's") {
    hosts_file names{on.home(), "127.0.0.1 localhost\n127.0.0.2 localhost\n"
                                "::1 localhost\n"};
    auto server = on.listening_server(
      short_run + flags{"--host", "localhost", "--workers", "4"});
    std::vector<child> all;
    for (std::string host : {"localhost", "127.0.0.1", "127.0.0.2", "::1"})
      all.push_back(on.worker({"--host", host}));
    check_end(server, 0);
    check_ends_of(all, 0);
  }
  SECTION("one is beyond loopback") {
    hosts_file names{on.home(), "127.0.0.1 localhost\n10.9.9.9 localhost\n"};
    const flags here{"--host", "localhost", "--connect-timeout", "1"};
    auto server = on.server(here);
    check_refusal(server, 1,
                  "cannot listen on localhost:" + on.port() + ": 10.9.9.9 " +
                    advice);
    auto worker = on.worker(here);
    check_refusal(worker, 1, "10.9.9.9 " + advice);
  }
}

TEST_CASE("a server listens elsewhere than others dial, and takes any port") {
  process_fixture on;
  auto meet = "file://" + (on.home() / "meet").string();
  SECTION("a lead at another address than its own settings name") {
    auto server = on.listening_server(
      short_run +
      flags{"--listen", "127.0.0.2:" + on.port(), "--workers", "1"});
    CHECK(server.said("listening +on 127.0.0.2:" + on.port() + "\n"));
    auto worker = on.worker({"--host", "127.0.0.2"});
    check_end(server, 0);
    check_end(worker, 0);
  }
  SECTION("a lead at any port") {
    auto server = on.listening_server(
      short_run + flags{"--listen", "127.0.0.1:0", "--workers", "1"});
    std::smatch port;
    auto said = server.out();
    REQUIRE(std::regex_search(said, port,
                              std::regex{"listening +on 127.0.0.1:([0-9]+)"}));
    auto worker = on.worker({"--port", port[1]});
    check_end(server, 0);
    check_end(worker, 0);
  }
  SECTION("peers that meet through a file") {
    const flags what{"--policy", "sync", "--epochs", "1"};
    auto lead =
      start_peer(on, 0, 2, what + flags{"--listen", "127.0.0.3:0"}, meet);
    auto other =
      start_peer(on, 1, 2, what + flags{"--listen", "127.0.0.4:0"}, meet);
    check_end(lead, 0);
    check_end(other, 0);
    CHECK(lead.said("listening +on 127.0.0.3:"));
    CHECK(other.said("connected +to 127.0.0.3:"));
    CHECK(other.said("listening +on 127.0.0.4:"));
  }
}

TEST_CASE("others are told what a node advertises, in the next life too") {
  process_fixture on;
  // 127.0.0.0/8 is this machine's, so only the name tells the addresses apart.
  SECTION("a shard") {
    auto lead = on.listening_server(
      short_run + with_shards(2) +
      flags{"--rank", "0", "--workers", "1", "--advertise", "localhost"});
    CHECK(lead.said("listening +on 127.0.0.1:" + on.port() +
                    "; others are told localhost:" + on.port()));
    auto shard =
      on.shard(1, with_shards(2) + flags{"--listen", "127.0.0.2:" + on.port(),
                                         "--advertise", "127.0.0.2"});
    auto worker = on.worker({"--transport", "stream"});
    for (auto* one : {&lead, &shard, &worker})
      check_end(*one, 0);
    CHECK(shard.said("listening +on 127.0.0.2:" + on.port() + "\n"));
  }
  SECTION("peers") {
    const flags what{"--policy",          "sync", "--epochs", "3",
                     "--checkpoint-freq", "5",    "--lr",     "0.02"};
    std::vector<child> all;
    for (auto rank : {0, 1, 2})
      all.push_back(start_peer(
        on, rank, 3,
        what + (rank == 1
                  ? flags{"--listen", "127.0.0.1:0", "--advertise", "localhost"}
                  : flags{})));
    on.await(all[0], "a checkpoint", is_kind("checkpoint"));
    CHECK(all[1].said("; others are told localhost:[0-9]+\n"));
    all[0].kill();
    check_end(all[1], 0);
    check_end(all[2], 0);
    CHECK(all[2].said("connected +to localhost:"));
  }
}

TEST_CASE("nobody dials or tells an address beyond loopback, whoever names "
          "it") {
  process_fixture on;
  const flags far{"--advertise", "10.9.9.9", "--insecure-network"};
  SECTION("a shard that registers") {
    auto lead = on.listening_server(with_shards(2) + flags{"--rank", "0"});
    auto shard = on.shard(1, with_shards(2) + far);
    check_refusal(shard, 2,
                  ", which parameter server shard 1 names, " + advice);
    CHECK(words_of(shard).find("10.9.9.9:") != std::string::npos);
  }
  SECTION("a welcome") {
    auto lead =
      on.listening_server(with_shards(2) + flags{"--rank", "0", "--workers",
                                                 "1", "--insecure-network"});
    auto shard = on.shard(1, with_shards(2) + far);
    shard.await("connected");
    auto worker = on.worker();
    check_refusal(worker, 2,
                  ", which the parameter server at 127.0.0.1:" + on.port() +
                    " names, " + advice);
  }
  SECTION("a file") {
    auto meet = "file://" + (on.home() / "meet").string();
    auto lead = start_peer(on, 0, 2, far, meet);
    lead.await("listening ");
    auto other = start_peer(on, 1, 2, {}, meet);
    check_refusal(other, 2, ", which the meeting file names, " + advice);
  }
  SECTION("the list of a run's peers") {
    auto lead = start_peer(on, 0, 3, {"--insecure-network"});
    auto second = start_peer(on, 1, 3, {});
    auto third = start_peer(on, 2, 3, far);
    check_end(second, 2);
    INFO(second.report());
    CHECK(second.err().find(", which the lead shard at 127.0.0.1:" + on.port() +
                            " names, " + advice) != std::string::npos);
  }
}

TEST_CASE("an interface is there and has an address, or the node says which "
          "there are") {
  process_fixture on;
  auto unknown = on.server({"--interface", "none7"});
  check_end(unknown, 1);
  CHECK(words_of(unknown).find("--interface none7: there is no such interface; "
                               "this machine has ") != std::string::npos);
  CHECK(words_of(unknown).find("lo") != std::string::npos);
  auto elsewhere = on.server({"--interface", "lo", "--host", "127.0.0.2"});
  check_refusal(elsewhere, 1,
                "--interface lo: has 127.0.0.1, where this node does not "
                "listen: it listens at 127.0.0.2 alone; give --listen "
                "0.0.0.0:" +
                  on.port() + " or 127.0.0.1:" + on.port());
  auto peer = start_peer(on, 0, 1,
                         {"--epochs", "1", "--interface", "lo", "--listen",
                          "127.0.0.1:" + on.port()});
  check_end(peer, 0);
}
