// Who connects to the port of a process: nodes, strangers and crowds.

#include "messages/transport/tls/first_bytes.hpp"
#include "messages/transport/wire/acceptor.hpp"
#include "messages/transport/wire/descriptor_limit.hpp"
#include "messages/transport/wire/host_address.hpp"
#include "messages/transport/wire/meeting.hpp"
#include "tests/support/loopback.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <sys/resource.h>
#include <sys/socket.h>

#include <algorithm>
#include <future>
#include <string>
#include <thread>
#include <vector>

using namespace troupe;
using namespace troupe::transport;
using Catch::Matchers::ContainsSubstring;

namespace {

/// Takes one guest for each purpose.
struct host {
  explicit host(double patience = 5, size_t most_pending = 64)
    : patience(patience), uut(terms_with(patience, most_pending)) {
    for (auto wants : {purpose::control, purpose::tensors})
      uut.lead_to(wants, [this](guest who) {
        if (!has_come.exchange(true))
          came.set_value(std::move(who));
      });
  }

  acceptor_terms terms_with(double seconds, size_t most_pending) {
    acceptor_terms out;
    out.host = "127.0.0.1";
    out.patience = seconds;
    out.most_pending = most_pending;
    out.say = [this](const std::string& line) {
      if (!has_said.exchange(true))
        said.set_value(line);
    };
    return out;
  }

  transport::socket connect() const {
    return transport::socket{connect_to("127.0.0.1", uut.port(), 5, false)};
  }

  guest next() {
    auto coming = came.get_future();
    REQUIRE(coming.wait_for(std::chrono::seconds(20)) ==
            std::future_status::ready);
    return coming.get();
  }

  double patience;
  std::promise<guest> came;
  std::promise<std::string> said; ///< The first line.
  std::atomic<bool> has_come = false, has_said = false;
  acceptor uut; ///< Ends first.
};

/// Whether the other end closes.
bool is_sent_away(transport::socket& line) {
  char byte = 0;
  iovec in[] = {{&byte, 1}};
  line.patience(20);
  try {
    return !line.receive(in, nullptr);
  } catch (const path_error&) {
    return true;
  }
}

void say(transport::socket& line, std::string text) {
  iovec out[] = {{text.data(), text.size()}};
  std::span<iovec> parts{out};
  line.send(parts, true);
}

/// What a node is told that is refused.
template <class Act>
std::string why_refused(Act act) {
  try {
    act();
  } catch (const refused_entry& why) {
    return why.what();
  }
  return "";
}

} // namespace

TEST_CASE("a node shows its token over TCP or over a Unix socket") {
  host it;
  auto token = random_token();
  CHECK(token.size() == sizeof opening::secret);
  CHECK(token != random_token());
  auto same_host = GENERATE_COPY(false, true);
  transport::socket line{same_host
                           ? connect_unix(it.uut.name())
                           : connect_to("127.0.0.1", it.uut.port(), 5, false)};
  auto met = std::async(std::launch::async,
                        [&] { open_line(line, purpose::tensors, token, 20); });
  auto who = it.next();
  CHECK(who.wants == purpose::tensors);
  CHECK(who.secret == token);
  CHECK(who.same_host == same_host);
  CHECK(who.from == (same_host ? "this host" : "127.0.0.1"));
  who.welcome();
  CHECK_NOTHROW(met.get());
}

TEST_CASE("a control connection is passed on when it says something") {
  host it;
  auto line = it.connect();
  open_line(line, purpose::control, "", 20);
  CHECK_FALSE(it.has_come);
  say(line, "words");
  auto who = it.next();
  CHECK(who.wants == purpose::control);
  char byte = 0;
  CHECK(recv(who.line.fd.get(), &byte, 1, 0) == 1);
  CHECK(byte == 'w');
}

TEST_CASE("whoever opens and then is silent is sent away in time") {
  host it{.1};
  auto line = it.connect();
  open_line(line, purpose::control, "", 20);
  CHECK(is_sent_away(line));
}

TEST_CASE("a stranger is sent away at once, with a line") {
  for (const auto* text :
       {"GET / HTTP/1.0\r\n\r\n", "TRPX", "TQ", "\1\0\0\0\0\0\0\4"}) {
    host it;
    auto line = it.connect();
    say(line, text);
    CHECK(is_sent_away(line));
    CHECK_THAT(it.said.get_future().get(),
               ContainsSubstring("127.0.0.1: it does not begin as a node"));
  }
}

TEST_CASE("each reason is told once in a while, and few of them") {
  std::vector<std::string> said;
  refusal_notes uut{[&](const std::string& line) {
    said.push_back(line);
  }};
  uut.note("10.0.0.1: no token");
  uut.note("10.0.0.1: no token");
  uut.note("10.0.0.1: another CA");
  CHECK(said == std::vector<std::string>{
                  "sent away    10.0.0.1: no token",
                  "sent away    10.0.0.1: another CA (and 1 more before)"});
  for (auto i = 0; i < 1000; ++i)
    uut.note(std::to_string(i));
  CHECK(said.size() == refusal_notes::most);
}

TEST_CASE("who speaks TLS where it is not spoken is told so") {
  host it;
  auto line = it.connect();
  say(line, "\x16\x03\x01\x02");
  std::string answer(answer_to_tls.size(), '\0');
  iovec in[] = {{answer.data(), answer.size()}};
  line.patience(20);
  REQUIRE(line.receive(in, nullptr));
  CHECK(answer == answer_to_tls);
  CHECK(is_sent_away(line));
  CHECK_THAT(it.said.get_future().get(),
             ContainsSubstring("127.0.0.1: " + unexpected_tls_line));
}

TEST_CASE("strangers hold no node up") {
  host it{20, 2};
  std::vector<transport::socket> crowd;
  for (int i = 0; i < 5; ++i)
    crowd.push_back(it.connect());
  say(crowd[4], "TRPH" + std::string(32, 'x'));
  CHECK(it.next().secret == std::string(32, 'x'));
  CHECK(is_sent_away(crowd[0]));
}

TEST_CASE("a crowd at one address takes the places of its own") {
  host it{20, 4};
  transport::socket first{connect_unix(it.uut.name())};
  std::vector<transport::socket> crowd;
  for (int i = 0; i < 20; ++i)
    crowd.push_back(it.connect());
  CHECK(is_sent_away(crowd[0]));
  auto token = random_token();
  say(first, "TRPH" + token);
  CHECK(it.next().secret == token);
}

TEST_CASE("a node that nobody takes waits for a while") {
  host it{GENERATE(.2, 20.)};
  it.uut.lead_to(purpose::tensors, nullptr);
  auto token = random_token();
  transport::socket line{connect_unix(it.uut.name())};
  say(line, "TRPH" + token);
  if (it.patience < 1) {
    CHECK(is_sent_away(line));
    return;
  }
  it.uut.lead_to(purpose::tensors,
                 [&](guest who) { it.came.set_value(std::move(who)); });
  CHECK(it.next().secret == token);
  CHECK_THROWS_AS(connect_unix("troupe-nobody"), path_error);
}

TEST_CASE("a node that is refused hears why") {
  host it;
  it.uut.lead_to(purpose::tensors,
                 [](guest who) { who.refuse(true, "it is\nfull"); });
  auto line = it.connect();
  CHECK(why_refused([&] {
          open_line(line, purpose::tensors, random_token(), 20);
        }) == "it is full");
}

TEST_CASE("what is no node of this release is named") {
  descriptor listener{testing::listen_on(0)};
  transport::socket line{
    connect_to("127.0.0.1", testing::port_of(listener.get()), 5, false)};
  descriptor server{accept(listener.get(), nullptr, nullptr)};
  REQUIRE(send(server.get(), "HTTP/1.0 400", 12, MSG_NOSIGNAL) == 12);
  CHECK_THAT(why_refused([&] { open_line(line, purpose::control, "", 20); }),
             ContainsSubstring("is no node of this release"));
}

TEST_CASE("a port that is closed is free again") {
  host it;
  auto port = it.uut.port();
  transport::socket waits{connect_unix(it.uut.name())};
  it.uut.close();
  it.uut.close();
  CHECK(is_sent_away(waits));
  acceptor_terms terms;
  terms.host = "127.0.0.1";
  terms.port = port;
  CHECK_NOTHROW(acceptor{terms});
}

namespace {

/// Leaves this process no descriptor while it lives.
class famine {
public:
  famine() {
    getrlimit(RLIMIT_NOFILE, &before_);
    rlimit low{std::min<rlim_t>(256, before_.rlim_cur), before_.rlim_max};
    setrlimit(RLIMIT_NOFILE, &low);
    for (int fd = 0; (fd = dup(STDERR_FILENO)) >= 0;)
      taken_.emplace_back(fd);
  }

  ~famine() { end(); }

  void end() {
    taken_.clear();
    setrlimit(RLIMIT_NOFILE, &before_);
  }

private:
  rlimit before_{};
  std::vector<descriptor> taken_;
};

/// s of a core that this process has had.
double core_seconds() {
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  auto of = [](const timeval& x) {
    return static_cast<double>(x.tv_sec) +
           1e-6 * static_cast<double>(x.tv_usec);
  };
  return of(used.ru_utime) + of(used.ru_stime);
}

} // namespace

TEST_CASE("without descriptors the acceptor rests, and later takes in who "
          "waited") {
  host it;
  transport::socket line{
    descriptor{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)}};
  auto where = testing::loopback(it.uut.port());
  auto token = random_token();
  famine now;
  REQUIRE(connect(line.get(), reinterpret_cast<sockaddr*>(&where),
                  sizeof where) == 0);
  say(line, "TRPH" + token);
  auto before = core_seconds();
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  CHECK_FALSE(it.has_come);
  CHECK(core_seconds() - before < 0.25);
  now.end();
  CHECK(it.next().secret == token);
}

TEST_CASE("descriptors that are left are counted when there are none") {
  descriptor_limit files;
  auto before = files.left();
  CHECK(before > 0);
  CHECK(files.most() > before);
  {
    famine now;
    CHECK(files.left() == 0);
    CHECK(files.most() <= 256);
  }
  CHECK(files.left() == before);
}
TEST_CASE("a port is shut before the last descriptor, and opens for more than "
          "one node") {
  // Of 64 descriptors 16 are the run's own.
  CHECK(should_accept(true, 16, 64));
  CHECK_FALSE(should_accept(true, 15, 64));
  CHECK_FALSE(should_accept(false, 19, 64));
  CHECK(should_accept(false, 20, 64));
  // With fewer descriptors in all, the run keeps fewer.
  CHECK(should_accept(true, 8, 32));
  CHECK_FALSE(should_accept(true, 7, 32));
  CHECK(should_accept(true, 1000, 1'048'576));
}

TEST_CASE("without consent nothing leaves this machine, and nothing listens "
          "beyond") {
  acceptor_terms terms;
  terms.host = "0.0.0.0";
  CHECK_THROWS_WITH(acceptor{terms},
                    ContainsSubstring("0.0.0.0 is no loopback address") &&
                      ContainsSubstring("--insecure-network"));
  for (auto host : {"203.0.113.7", "0.0.0.0", "::", "fe80::1", "fd77::1"})
    CHECK_THROWS_WITH(connect_to(host, 1, 5, false),
                      ContainsSubstring(" is no loopback address"));
  for (auto host : {"127.0.0.2", "::1", "::ffff:127.0.0.1"})
    CHECK_THROWS_WITH(connect_to(host, 1, 5, false),
                      !ContainsSubstring("is no loopback address"));
  terms.own.trusts_network = true;
  acceptor open{terms};
  CHECK(connect_to("127.0.0.1", open.port(), 5, false));
}

TEST_CASE("an address of IPv4 looks the same over either family") {
  auto text = [](const std::string& host) {
    return host_text(*look_up(host, 0, 0)->ai_addr);
  };
  CHECK(text("10.0.0.1") == "10.0.0.1");
  CHECK(text("::ffff:10.0.0.1") == "10.0.0.1");
  CHECK(text("fd77::1") == "fd77::1");
}
