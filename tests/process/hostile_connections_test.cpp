// Connections that break the protocol at each of its states, and connections
// that say nothing: the run goes on, and nothing of them stays.
//
// TROUPE_HOSTILE_CONNECTIONS connections of each kind of run (10,000), from
// TROUPE_HOSTILE_FIRST on.

#include "messages/interfaces.hpp"
#include "messages/transport/tls/tls_session.hpp"
#include "messages/transport/wire/frame.hpp"
#include "tests/process/hostile_target.hpp"
#include "tests/process/limits.hpp"

#include <caf/io/basp/message_type.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <sys/resource.h>

#include <atomic>
#include <fstream>
#include <mutex>
#include <random>
#include <thread>

using namespace troupe::testing;
using caf::io::basp::header;
using caf::io::basp::message_type;
using troupe::transport::path_error;
using troupe::transport::purpose;

namespace {

using dice = std::mt19937_64;

std::string noise(dice& random, size_t most) {
  std::string out(random() % (most + 1), '\0');
  for (auto& byte : out)
    byte = static_cast<char>(random());
  return out;
}

/// Changes up to four bytes, or cuts it.
std::string damaged(dice& random, std::string bytes) {
  if (random() % 4 == 0)
    return bytes.substr(0, random() % bytes.size());
  for (auto left = 1 + random() % 4; left > 0; --left)
    bytes[random() % bytes.size()] = static_cast<char>(random());
  return bytes;
}

// -- what breaks the protocol -------------------------------------------------

/// One that breaks it at a state that is drawn.
class attack {
public:
  attack(const target& to, uint64_t number)
    : to_(to), number_(static_cast<uint32_t>(number)), random_(number) {
    // nop
  }

  /// Returns whether the server has closed the connection in the end.
  bool run() {
    using state = bool (attack::*)();
    constexpr state states[] = {
      &attack::before_opening, &attack::in_tls,        &attack::in_opening,
      &attack::before_caf,     &attack::in_handshake,  &attack::in_header,
      &attack::in_message,     &attack::to_an_actor,   &attack::with_no_token,
      &attack::as_second,      &attack::behind_a_hello};
    try {
      return (this->*states[random_() % std::size(states)])();
    } catch (const path_error&) {
      return true; // While it spoke.
    }
  }

private:
  bool end(troupe::transport::socket& line, const std::string& bytes) {
    send_bytes(line, bytes);
    return is_closed(line, 20);
  }

  /// Without TLS.
  troupe::transport::socket bare() const { return reach({to_.at.where, {}}); }

  troupe::transport::socket opened(purpose wants, const std::string& secret) {
    auto out = reach(to_.at);
    troupe::transport::open_line(out, wants, secret, 20);
    return out;
  }

  bool before_opening() {
    auto line = bare();
    return end(line, noise(random_, random_() % 3 == 0 ? 70'000 : 64));
  }

  // Of what a client of TLS says first, to a server with TLS or without.
  bool in_tls() {
    auto [here, there] = troupe::test::socket_pair();
    auto session = to_.identity->connect(here.get(), "127.0.0.1");
    session->handshake();
    std::string hello(4096, '\0');
    auto got = ::recv(there.get(), hello.data(), hello.size(), MSG_DONTWAIT);
    hello.resize(static_cast<size_t>(got));
    auto line = bare();
    return end(line, random_() % 4 == 0 ? hello + noise(random_, 500)
                                        : damaged(random_, hello));
  }

  bool in_opening() {
    auto line = reach(to_.at);
    auto first = std::string{"TRP"} + (random_() % 2 == 0 ? 'C' : 'H');
    return end(line, damaged(random_, first + std::string(32, '\0')));
  }

  bool before_caf() {
    auto line = opened(purpose::control, "");
    return end(line, noise(random_, 10'000));
  }

  bool in_handshake() {
    auto line = opened(purpose::control, "");
    return end(line, damaged(random_, basp_handshake(number_)));
  }

  bool in_header() {
    auto line = opened(purpose::control, "");
    header head{static_cast<message_type>(random_() % 12),
                static_cast<uint8_t>(random_() % 8),
                static_cast<uint32_t>(random_() >> (random_() % 64)),
                random_() >> (random_() % 64),
                random_() % 100,
                random_() % 100};
    auto bytes = basp_frame(head, "");
    auto size = head.payload_len;
    for (size_t i = 0; i < sizeof size; ++i) // It was set to that of nothing.
      bytes[4 + i] = static_cast<char>(size >> (24 - 8 * i));
    return end(line, (random_() % 2 == 0 ? basp_handshake(number_) : "") +
                       bytes + noise(random_, 5000));
  }

  std::string any_message(caf::actor_id from, caf::actor_id to) {
    auto request = random_() % 3;
    switch (random_() % 4) {
    case 0:
      return basp_message(from, to, caf::make_message(noise(random_, 2000)),
                          request);
    case 1:
      return basp_message(
        from, to, caf::make_message(troupe::fetch_atom_v, random_()), request);
    case 2:
      return basp_handle(from, to, static_cast<uint32_t>(random_()), random_());
    default:
      return basp_message(from, to, caf::make_message(), request);
    }
  }

  bool in_message() {
    member it{to_.at, number_};
    for (auto left = random_() % 8; left > 0; --left)
      it.send(any_message(random_() % 50, it.door()));
    return end(it.line(), damaged(random_, any_message(3, it.door())));
  }

  bool to_an_actor() {
    member it{to_.at, number_};
    return end(it.line(), any_message(3, random_() % 200));
  }

  bool with_no_token() {
    auto line = reach(to_.at);
    return end(line, "TRPH" + std::string(32, 'x') + noise(random_, 1000));
  }

  // A node connects twice, and shakes hands on both connections.
  bool as_second() {
    member first{to_.at, number_};
    auto second = opened(purpose::control, "");
    return end(second,
               basp_handshake(number_) + any_message(3, first.door())) &&
           end(first.line(), "");
  }

  std::string any_frame() {
    troupe::transport::frame_head head;
    head.kind = static_cast<troupe::transport::frame_kind>(random_() % 26);
    head.carried = static_cast<troupe::transport::carriage>(random_() % 7);
    head.shape.count = random_() >> (random_() % 64);
    head.request = troupe::transfer_id{random_() % 10};
    head.header_bytes = static_cast<uint32_t>(random_() >> (random_() % 64));
    head.let_gos = static_cast<uint32_t>(random_() >> (random_() % 64));
    head.region = random_() >> (random_() % 64);
    head.offset = random_() >> (random_() % 64);
    auto bytes = encode(head);
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }

  bool behind_a_hello() {
    member it{to_.at, number_};
    auto welcome = it.say_hello();
    if (!welcome.accepted())
      throw std::runtime_error("a hello was refused: " + welcome.refusal());
    auto path = opened(purpose::tensors, welcome.paths().token());
    std::string bytes;
    for (auto left = random_() % 4; left > 0; --left)
      bytes += random_() % 4 == 0 ? noise(random_, 1000) : any_frame();
    return end(path, bytes) && end(it.line(), noise(random_, 100));
  }

  const target& to_;
  uint32_t number_;
  dice random_;
};

/// Many at a time.
void attack_all(const target& to, uint64_t first, uint64_t count) {
  constexpr size_t at_once = 8;
  std::atomic<uint64_t> next = first;
  std::mutex mutex;
  std::vector<std::string> trouble;
  auto work = [&] {
    for (uint64_t number = 0; (number = next++) < first + count;) {
      std::string line;
      try {
        if (!attack{to, number}.run())
          line = "is still open";
      } catch (const std::exception& err) {
        line = err.what();
      }
      if (line.empty())
        continue;
      std::lock_guard guard{mutex};
      trouble.push_back("connection " + std::to_string(number) + ": " + line);
    }
  };
  {
    std::vector<std::jthread> all;
    for (size_t i = 0; i < at_once; ++i)
      all.emplace_back(work);
  }
  CHECK(trouble == std::vector<std::string>{});
}

} // namespace

TEST_CASE("malformed connections leave nothing behind") {
  auto encrypted = GENERATE(false, true);
  INFO((encrypted ? "TLS" : "plain"));
  target it{encrypted};
  attack_all(it, 0, 100); // What is taken once and kept.
  auto pid = it.server().pid();
  auto files = files_of(it.server());
  auto before = memory_of(pid);
  std::ofstream{"/proc/" + std::to_string(pid) + "/clear_refs"} << 5; // VmHWM.
  attack_all(it, wished("TROUPE_HOSTILE_FIRST", 1000),
             wished("TROUPE_HOSTILE_CONNECTIONS", 5'000));
  INFO("it had " << before << " kB, now " << memory_of(pid) << ", at most "
                 << memory_of(pid, "VmHWM"));
  CHECK(memory_of(pid, "VmHWM") < before + most_growth);
  eventually("the files of before",
             [&] { return files_of(it.server()) <= files; });
  it.check_end_of_run();
}

TEST_CASE("TLS at one end only is told of at both ends, within a second") {
  auto encrypted = GENERATE(false, true);
  target it{encrypted};
  auto other = it.at;
  other.own.identity = encrypted ? nullptr : it.identity;
  auto begin = std::chrono::steady_clock::now();
  std::string line;
  try {
    auto way = reach(other);
    troupe::transport::open_line(way, purpose::control, "", 20);
  } catch (const path_error& why) {
    line = why.what();
  }
  std::chrono::duration<double> taken =
    std::chrono::steady_clock::now() - begin;
  CHECK(taken.count() < 1);
  CHECK(line.find("the other end does not speak TLS, and this node was told "
                  "to: give both ends --tls-dir") != std::string::npos);
  it.server().await(std::string{"sent away +127.0.0.1: the other end "} +
                    (encrypted ? "does not speak TLS" : "speaks TLS"));
  it.check_end_of_run();
}

TEST_CASE("who begins with a byte of TLS and is silent then costs no time") {
  process_fixture on;
  troupe::test::node_folder files{troupe::test::server_draft()};
  auto server = on.listening_server(
    {"--workers", "1", "--tls-dir", files.terms().cert.parent_path().string()});
  std::vector<troupe::transport::socket> all;
  for (auto left = 10; left > 0; --left) {
    all.push_back(
      reach({{"127.0.0.1", static_cast<uint16_t>(std::stoi(on.port()))}, {}}));
    CHECK(send_bytes(all.back(), "\x16"));
  }
  CHECK(load_of(server) < 0.3);
}

TEST_CASE("a thousand silent connections keep no node out") {
  auto encrypted = GENERATE(false, true);
  INFO((encrypted ? "TLS" : "plain"));
  target it{encrypted};
  rlimit files{};
  REQUIRE(getrlimit(RLIMIT_NOFILE, &files) == 0);
  files.rlim_cur = files.rlim_max;
  REQUIRE(setrlimit(RLIMIT_NOFILE, &files) == 0);
  strangers one_host{it.on.port(), 1000};
  strangers ten_hosts{it.on.port(), 1000, 10};
  auto begin = std::chrono::steady_clock::now();
  member late{it.at, 7};
  CHECK(late.say_hello().accepted());
  std::chrono::duration<double> taken =
    std::chrono::steady_clock::now() - begin;
  CHECK(taken.count() < 2);
  auto worker = it.next_worker();
  it.on.await(it.server(), "the worker", is_gradient_of(1));
  it.check_end_of_run();
  check_end(worker, 0);
}
