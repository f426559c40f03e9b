// Nodes behind address translation, as in a data centre or a Kubernetes
// cluster, and on machines of several networks. Each machine is a network
// namespace:
//
//   servers 10.77.1.2 --- 10.77.1.1 router 10.77.2.1 --- 10.77.2.2 workers
//
// The router sends its ports 5242 and 5243 on to 4242 and 4243 of the servers,
// which see all workers at the router's own address. Workers have no way to
// 10.77.1.0/24.

#include "tests/process/hosts_file.hpp"
#include "tests/process/namespaces.hpp"
#include "tests/process/peers.hpp"
#include "tests/process/process_fixture.hpp"

#include <catch2/catch_test_macros.hpp>

#include <fstream>
#include <set>
#include <sstream>

using namespace troupe::testing;

namespace {

const flags three_steps{"--max-steps", "3"};
const flags to_router{"--host", "10.77.2.1", "--port",
                      "5242",   "--threads", "1"};

struct translated_cluster {
  translated_cluster() : net({"servers", "router", "workers"}) {
    net.connect("servers", "in0 10.77.1.2/24", "router", "in1 10.77.1.1/24");
    net.connect("workers", "out0 10.77.2.2/24", "router", "out1 10.77.2.1/24");
    {
      inside there{"router"};
      std::ofstream{"/proc/sys/net/ipv4/ip_forward"} << 1;
    }
    auto rules = on.home() / "translation.nft";
    std::ofstream{rules} << R"(
      table ip translation {
        chain incoming {
          type nat hook prerouting priority -100;
          iifname "out1" tcp dport 5242 dnat to 10.77.1.2:4242
          iifname "out1" tcp dport 5243 dnat to 10.77.1.2:4243
        }
        chain outgoing {
          type nat hook postrouting priority 100;
          oifname "in1" masquerade
        }
      }
)";
    net.run("router", "nft -f " + rules.string());
  }

  void pki(const flags& arguments) {
    auto done = on.start("pki", flags{"pki"} + arguments);
    check_end(done, 0);
  }

  /// The flag for a new certificate.
  flags dir(const std::string& name, const std::string& role) {
    auto folder = (on.home() / "ca").string();
    if (!std::filesystem::exists(folder))
      pki({"init", "--out", folder});
    pki({"issue", "--out", folder, "--name", name, "--role", role, "--host",
         "10.77.1.1,10.77.1.2,10.77.2.1,10.77.2.2,node"});
    return {"--tls-dir", folder + "/" + name};
  }

  template <class F>
  child start_in(const std::string& machine, F start) {
    inside there{machine};
    return start();
  }

  process_fixture on;
  machines net;
};

/// The ports beyond loopback that listen where this process runs.
std::set<int> open_ports(const child& who) {
  std::set<int> out;
  for (std::string file : {"tcp", "tcp6"}) {
    std::istringstream in{
      slurp("/proc/" + std::to_string(who.pid()) + "/net/" + file)};
    std::string line, word, here, state;
    std::getline(in, line);
    while (std::getline(in, line)) {
      std::istringstream words{line};
      words >> word >> here >> word >> state;
      auto on_loopback = here.starts_with("0100007F");
      if (state == "0A" && !on_loopback)
        out.insert(std::stoi(here.substr(here.rfind(':') + 1), nullptr, 16));
    }
  }
  return out;
}

} // namespace

TEST_CASE("several workers behind one address train with a server and a shard "
          "behind another, at other ports") {
  translated_cluster it;
  auto& on = it.on;
  auto server = it.dir("servers", "ps");
  auto lead = it.start_in("servers", [&] {
    return on.listening_server(server + three_steps + with_shards(2) +
                               flags{"--rank", "0", "--workers", "3",
                                     "--listen", "0.0.0.0:4242", "--advertise",
                                     "10.77.2.1:5242"});
  });
  CHECK(lead.said("listening +on 0.0.0.0:4242; others are told "
                  "10.77.2.1:5242\n"));
  auto shard = it.start_in("servers", [&] {
    return on.shard(1,
                    server + with_shards(2) +
                      flags{"--host", "10.77.1.2", "--port", "4242", "--listen",
                            "10.77.1.2:4243", "--advertise", "10.77.2.1:5243"});
  });
  shard.await("connected");
  CHECK(open_ports(shard) == std::set{4242, 4243}); // Those of both processes.
  auto certificate = it.dir("workers", "worker");
  auto all =
    it.start_in("workers", [&] { return on.worker(certificate + to_router); });
  std::vector<child> others;
  for (int i = 0; i < 2; ++i)
    others.push_back(it.start_in(
      "workers", [&] { return on.worker(certificate + to_router); }));
  for (auto* one : {&lead, &shard, &all, &others[0], &others[1]})
    check_end(*one, 0);
  CHECK(all.said("connected +to 10.77.2.1:5242 .* over stream"));
  CHECK(on.summary()["workers"] == 3);
}

TEST_CASE("a token is enough behind address translation, too, and who has "
          "another is sent away") {
  translated_cluster it;
  auto& on = it.on;
  auto folder = it.dir("ps-0", "ps").back();
  auto token = [&](const std::string& name, const std::string& text) {
    auto file = (on.home() / name).string();
    std::ofstream{file} << text << '\n';
    return flags{"--token-file", file};
  };
  auto right = token("token", "0123456789abcdef0123");
  auto server = it.start_in("servers", [&] {
    return on.listening_server(
      right + three_steps +
      flags{"--tls-cert", folder + "/tls.crt", "--tls-key", folder + "/tls.key",
            "--workers", "1", "--listen", "[::]:4242"});
  });
  CHECK(open_ports(server) == std::set{4242});
  auto by_ca = to_router + flags{"--tls-ca", folder + "/ca.crt"};
  auto stranger = it.start_in("workers", [&] {
    return on.worker(by_ca + token("other", "another token of the run"));
  });
  check_end(stranger, 1);
  auto worker =
    it.start_in("workers", [&] { return on.worker(by_ca + right); });
  check_end(server, 0);
  check_end(worker, 0);
  CHECK(server.said("sent away +10.77.1.1: the token is not"));
}

TEST_CASE("of a name's addresses the one that answers is taken, and a server "
          "listens at those that it has") {
  translated_cluster it;
  auto& on = it.on;
  // Nobody has the first two.
  hosts_file names{on.home(), "10.77.2.8 node\n10.77.2.9 node\n"
                              "10.77.1.1 node\n10.77.2.1 node\n"};
  auto certificate = it.dir("all", "ps,worker");
  auto server = it.start_in("router", [&] {
    return on.listening_server(certificate + three_steps +
                               flags{"--host", "node", "--workers", "2"});
  });
  auto first = it.start_in("workers", [&] {
    return on.worker(certificate + flags{"--host", "node"});
  });
  auto second = it.start_in("servers", [&] {
    return on.worker(certificate + flags{"--host", "node"});
  });
  for (auto* one : {&server, &first, &second})
    check_end(*one, 0);
}

TEST_CASE("a machine of several networks tells the address of one interface") {
  translated_cluster it;
  auto& on = it.on;
  auto certificate = it.dir("peers", "ps,worker");
  auto meet = "file://" + (on.home() / "meet").string();
  SECTION("of peers that meet by a file") {
    const flags what = certificate + flags{"--policy", "sync", "--epochs", "1"};
    auto lead = it.start_in("router", [&] {
      return start_peer(on, 0, 2, what + flags{"--interface", "out1"}, meet);
    });
    auto other = it.start_in("workers", [&] {
      return start_peer(on, 1, 2, what + flags{"--interface", "out0"}, meet);
    });
    check_end(lead, 0);
    check_end(other, 0);
    CHECK(lead.said("listening +on 10.77.2.1:[0-9]+\n"));
    CHECK(other.said("listening +on 10.77.2.2:[0-9]+\n"));
  }
  SECTION("of a shard that listens at all") {
    auto lead = it.start_in("router", [&] {
      return on.listening_server(
        certificate + three_steps + with_shards(2) +
        flags{"--rank", "0", "--workers", "1", "--host", "10.77.2.1"});
    });
    auto shard = it.start_in("router", [&] {
      return on.shard(1, certificate + with_shards(2) +
                           flags{"--host", "10.77.2.1", "--listen",
                                 "0.0.0.0:4243", "--interface", "out1"});
    });
    auto worker = it.start_in("workers", [&] {
      return on.worker(certificate + flags{"--host", "10.77.2.1"});
    });
    for (auto* one : {&lead, &shard, &worker})
      check_end(*one, 0);
    CHECK(shard.said("listening +on 0.0.0.0:4243; others are told "
                     "10.77.2.1:4243\n"));
  }
  SECTION("that has none") {
    it.net.run("router", "ip link add bare0 type veth peer name bare1");
    it.net.run("router", "ip link set bare0 up");
    it.net.run("router", "ip link set bare1 up"); // Link-local addresses.
    auto server = it.start_in("router", [&] {
      return on.server(certificate + flags{"--interface", "bare0"});
    });
    check_end(server, 1);
    CHECK(server.err().find("--interface bare0: has no address that others "
                            "could dial") != std::string::npos);
  }
  SECTION("of IPv6, if it has no other") {
    it.net.run("router", "ip link add six0 type veth peer name six1");
    it.net.run("router", "ip address add fd77::1/64 dev six0 nodad");
    it.net.run("router", "ip link set six0 up");
    auto server = it.start_in("router", [&] {
      return on.listening_server(certificate + flags{"--interface", "six0",
                                                     "--listen", "[::]:4242",
                                                     "--workers", "1"});
    });
    CHECK(server.said("others are told \\[fd77::1\\]:4242\n"));
  }
}
