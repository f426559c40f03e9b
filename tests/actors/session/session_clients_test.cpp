// How session clients end: with one line after an unforeseen error, as the lead
// says, or when the lead is lost. Over real connections.

#include "actors/admission/admission.hpp"
#include "actors/control/door.hpp"
#include "actors/runtime/inline_execution.hpp"
#include "actors/runtime/spawning.hpp"
#include "actors/session/handshake.hpp"
#include "actors/session/session_client.hpp"
#include "actors/session/shard_session_client.hpp"
#include "config/text/failure.hpp"
#include "messages/protocol.hpp"
#include "tests/support/dying_lead.hpp"

#include <c10/util/Exception.h>
#include <caf/io/middleman.hpp>
#include <catch2/catch_test_macros.hpp>

#include <future>
#include <new>
#include <optional>
#include <thread>

using namespace troupe;
using namespace std::chrono_literals;

namespace {

struct system_config : caf::actor_system_config {
  system_config() {
    allow_inline_execution(*this, 2);
    load<caf::io::middleman>();
    set("caf.middleman.app-identifiers", std::vector<std::string>{"troupe"});
  }
};

/// Whoever is at the other end says no more than hello.
parameter_server_actor make_server(caf::actor_system& system) {
  return system.spawn([](parameter_server_actor::pointer)
                        -> parameter_server_actor::behavior_type {
    using weights = caf::result<release_header, payload>;
    auto no = [] {
      return caf::make_error(errc::failed);
    };
    return {
      [no](push_atom, const push_header&, const payload&) -> weights {
        return no();
      },
      [no](pull_atom, const pull_header&) -> weights { return no(); },
      [no](watch_atom, const watch_request&)
        -> caf::result<watch_header, payload> { return no(); },
      [](score_atom, const score&) {},
    };
  });
}

/// A coordinator, which makes the admission that of a lead.
coordinator_actor make_coordinator(caf::actor_system& system) {
  return caf::actor_cast<coordinator_actor>(
    system.spawn([](caf::event_based_actor*) {
      return caf::behavior{[](tick_atom) {
      }};
    }));
}

/// Keeps the promise when a shard registers.
shard_registrar_actor make_registrar(caf::actor_system& system,
                                     std::promise<void>& registered) {
  return system.spawn([&registered](shard_registrar_actor::pointer)
                        -> shard_registrar_actor::behavior_type {
    return {
      [&registered](register_atom, shard_id, const std::string&, uint16_t,
                    const remote_shard_actor&) { registered.set_value(); },
      [](shards_atom) { return std::vector<config::address>{}; },
      [](begun_atom, shard_id) {},
      [](chunk_atom, shard_id, const chunk&) {},
      [](write_atom, shard_id, transfer_id, const std::string&) {},
      [](refuse_atom, const std::string&) {},
      [](credit_atom, shard_id, transfer_id, uint64_t) {},
      [](state_atom, const shard_fetch_ptr&) {},
      [](leave_atom, shard_id) {},
      [](tick_atom) {},
      [](stop_atom, const run_end&) {},
    };
  });
}

/// A shard that is busy for a while when it is pinged.
remote_shard_actor make_busy_shard(caf::actor_system& system,
                                   const session_client_actor& session,
                                   std::chrono::milliseconds busy) {
  return caf::actor_cast<remote_shard_actor>(
    system.spawn([=](caf::event_based_actor*) {
      return caf::behavior{
        [=](ping_atom) { std::this_thread::sleep_for(busy); },
        [=](stop_atom, const run_end& how) {
          caf::anon_send(session, ended_atom_v, how);
        },
      };
    }));
}

/// A server's process, and a node's, in one.
class two_nodes {
public:
  two_nodes() {
    admission_parts parts;
    parts.settings.cluster.shards = 2;
    parts.weights = parts.whole = {element_type::float32, 10};
    parts.server = server_ = make_server(there_);
    parts.coordinator = coordinator_ = make_coordinator(there_);
    parts.registrar = registrar_ = make_registrar(there_, registered_);
    roster_->open({});
    parts.roster = roster_;
    parts.shard_counts = {5, 5};
    auto given = std::make_shared<control::grants>();
    parts.given = given;
    door_ = spawn<admission_actor, admission_state>(
      there_, placement::scheduled, std::move(parts));
    transport::acceptor_terms terms;
    terms.host = "127.0.0.1";
    control::door_parts entrance;
    entrance.published = caf::actor_cast<caf::strong_actor_ptr>(door_);
    entrance.types = there_.message_types<admission_actor>();
    entrance.acceptor = std::make_shared<transport::acceptor>(std::move(terms));
    entrance.given = given;
    port_ = entrance.acceptor->port();
    entrance_ = std::make_unique<control::door>(there_, std::move(entrance));
    supervisor_ = here_.spawn(
      [this](supervisor_actor::pointer) -> supervisor_actor::behavior_type {
        return {
          [](supervise_atom, const std::string&, const caf::strong_actor_ptr&) {
          },
          [this](ended_atom, const run_end& how) { end_.set_value(how); },
        };
      });
  }

  ~two_nodes() {
    caf::anon_send_exit(server_, caf::exit_reason::kill);
    caf::anon_send_exit(registrar_, caf::exit_reason::kill);
    caf::anon_send_exit(coordinator_, caf::exit_reason::kill);
    caf::anon_send_exit(door_, caf::exit_reason::kill);
    caf::anon_send_exit(supervisor_, caf::exit_reason::kill);
  }

  /// How a node ends whose participant is created by this function.
  /// @param first The port at which the node looks for the lead until it is
  /// told a better one; 0: the lead's.
  template <class F>
  run_end end_of_worker(F make, uint16_t first = 0,
                        const std::string& found = "127.0.0.1") {
    remote_session_client_parts parts;
    parts.host = "127.0.0.1";
    parts.port = first ? first : port_;
    if (first)
      parts.look_up = [port = port_, found] {
        return config::address{found, port};
      };
    parts.hello = hello("worker");
    parts.supervisor = supervisor_;
    parts.make = [make](const proto::Welcome&, const session_client_actor&,
                        const payload&) -> participant {
      make();
      return worker_actor{};
    };
    spawn<session_client_actor, remote_session_client_state>(
      here_, placement::detached, std::move(parts));
    return wait();
  }

  /// @param at The port at which the shard looks for its lead; 0: the lead's.
  template <class F>
  run_end end_of_shard(F make, uint16_t at = 0,
                       shard_session_client_parts parts = {}) {
    parts.host = "127.0.0.1";
    parts.port = at ? at : port_;
    parts.connect_timeout = 1;
    parts.rank = shard_id{1};
    parts.hello = hello("ps");
    parts.hello.set_rank(1);
    parts.supervisor = supervisor_;
    parts.make = [this, make](const proto::Welcome&,
                              const shard_registrar_actor&,
                              const session_client_actor& session) {
      make();
      open_shard out;
      out.where.host = "a shard's address";
      out.close = [] {
      };
      out.handle = make_busy_shard(here_, session, 0ms);
      return out;
    };
    spawn<session_client_actor, shard_session_client_state>(
      here_, placement::detached, std::move(parts));
    return wait();
  }

  /// The lead says how the run has ended, and is gone before its shard has
  /// heard it.
  run_end end_of_shard_after(std::chrono::milliseconds busy) {
    return end_without_lead({}, busy);
  }

  /// The lead is lost while it has a shard.
  /// @param parts What the shard's session client knows of other nodes.
  /// @param last_words How long the shard needs to hear that the run, or this
  /// life of it, has ended in the way `how`; nothing: it has not ended.
  run_end end_without_lead(shard_session_client_parts parts,
                           std::optional<std::chrono::milliseconds> last_words,
                           const run_end& how = {}) {
    parts.host = "127.0.0.1";
    parts.port = port_;
    parts.rank = shard_id{1};
    parts.connect_timeout = 1;
    parts.hello = hello("ps");
    parts.hello.set_rank(1);
    parts.supervisor = supervisor_;
    parts.make = [this, last_words, how](const proto::Welcome&,
                                         const shard_registrar_actor&,
                                         const session_client_actor& session) {
      open_shard out;
      out.where.host = "127.0.0.1";
      out.close = [this] {
        if (!closed_at_)
          closed_at_ = std::chrono::steady_clock::now();
      };
      out.handle = make_busy_shard(here_, session, last_words.value_or(0ms));
      if (!last_words)
        return out;
      caf::anon_send(out.handle, ping_atom_v);
      caf::anon_send(out.handle, stop_atom_v, how);
      return out;
    };
    spawn<session_client_actor, shard_session_client_state>(
      here_, placement::detached, std::move(parts));
    registered_.get_future().wait();
    lost_at_ = std::chrono::steady_clock::now();
    caf::anon_send_exit(registrar_, caf::exit_reason::kill);
    return wait();
  }

  /// The lead names a shard at this host.
  void open_shard_at(const std::string& host) { roster_->open({{host, 4243}}); }

  uint16_t port() const { return port_; }

  /// How long the shard stayed after its lead was lost.
  std::chrono::steady_clock::duration patience() const {
    return closed_at_.value() - lost_at_;
  }

private:
  static proto::Hello hello(const std::string& role) {
    proto::Hello out;
    out.set_protocol(protocol_version);
    out.set_role(role);
    return out;
  }

  run_end wait() {
    auto found = end_.get_future();
    if (found.wait_for(std::chrono::seconds(60)) != std::future_status::ready)
      return {255, "it hangs"};
    return found.get();
  }

  bool ready_ = (init_messages(), true);
  system_config config_;
  system_config config_there_;
  caf::actor_system here_{config_};
  caf::actor_system there_{config_there_};
  std::shared_ptr<shard_roster> roster_ = std::make_shared<shard_roster>();
  std::promise<run_end> end_;
  std::promise<void> registered_;
  std::chrono::steady_clock::time_point lost_at_;
  std::optional<std::chrono::steady_clock::time_point> closed_at_; ///< First.
  parameter_server_actor server_;
  shard_registrar_actor registrar_;
  coordinator_actor coordinator_;
  admission_actor door_;
  std::unique_ptr<control::door> entrance_;
  supervisor_actor supervisor_;
  uint16_t port_ = 0;
};

class stop_watch {
public:
  double seconds() const {
    return std::chrono::duration<double>(clock::now() - began_).count();
  }

private:
  using clock = std::chrono::steady_clock;

  clock::time_point began_ = clock::now();
};

void check_all(run_end (*end_of)(two_nodes&, std::function<void()>)) {
  auto ends = [&](std::function<void()> make) {
    two_nodes on;
    return end_of(on, std::move(make));
  };
  auto out_of_memory = ends([] { throw std::bad_alloc{}; });
  CHECK(out_of_memory.status == 1);
  CHECK(out_of_memory.line ==
        "this process gets no more memory; give it more (ulimit -v)");
  auto library = ends([] { TORCH_CHECK(false, "no such layer"); });
  CHECK(library.status == 1);
  CHECK(library.line == "no such layer");
  auto strange = ends([] { throw 7; });
  CHECK(strange.status == 1);
  CHECK(strange.line == "an exception of an unknown kind");
  auto usage = ends([] { throw usage_error("--lr 0: no"); });
  CHECK(usage.status == 2);
  CHECK(usage.line == "--lr 0: no");
}

} // namespace

TEST_CASE("whatever keeps a worker from being made ends its process") {
  check_all([](two_nodes& on, std::function<void()> make) {
    return on.end_of_worker(std::move(make));
  });
}

TEST_CASE("a shard hears how the run ended though its lead is gone already") {
  two_nodes on;
  constexpr std::chrono::milliseconds busy{200};
  auto how = on.end_of_shard_after(busy);
  CHECK(how.status == 0);
  CHECK(how.line.empty());
  CHECK(on.patience() > busy / 2);
}

TEST_CASE("a node finds a lead that says elsewhere where it is") {
  auto nobody = uint16_t{1};
  auto how =
    two_nodes{}.end_of_worker([] { throw run_error("it is there"); }, nobody);
  CHECK(how.line == "it is there");
}

TEST_CASE("addresses beyond loopback that others name need consent, too") {
  two_nodes on;
  on.open_shard_at("10.0.0.2");
  auto how = on.end_of_worker([] {
    // nop
  });
  CHECK(how.status == 2);
  CHECK(how.line.starts_with(
    "10.0.0.2:4243, which the parameter server at 127.0.0.1:" +
    std::to_string(on.port()) + " names, is no loopback address"));
  CHECK(how.line.find("--insecure-network") != std::string::npos);
  auto nobody = uint16_t{1};
  how = two_nodes{}.end_of_worker(
    [] {
      // nop
    },
    nobody, "10.0.0.2");
  CHECK(how.status == 2);
  CHECK(how.line.find("which the meeting file names, is no loopback") !=
        std::string::npos);
}

TEST_CASE("that a node waits is said once, and late where a lead begins anew") {
  connection_attempts uut{60, 1};
  CHECK((uut.failed(0) && uut.is_news(0, 0)));
  CHECK((uut.failed(9) && !uut.is_news(9, 0)));
  uut.succeeded();
  CHECK((uut.failed(10) && !uut.is_news(10, 3)));
  CHECK((uut.failed(12) && !uut.is_news(12, 3)));
  CHECK((uut.failed(13) && uut.is_news(13, 3)));
  CHECK((uut.failed(14) && !uut.is_news(14, 3)));
}

TEST_CASE("a node looks on at once when a lead dies before it answers") {
  two_nodes on;
  testing::dying_lead first{on.port(), "worker"};
  stop_watch watch;
  auto how =
    on.end_of_worker([] { throw run_error("it is there"); }, first.port());
  CHECK(how.line == "it is there");
  CHECK(watch.seconds() < patience_with_a_peer / 2);
}

TEST_CASE("a shard looks on at once when its lead dies while it registers") {
  two_nodes on;
  testing::dying_lead lead{on.port(), "a shard's address"};
  stop_watch watch;
  auto how = on.end_of_shard([] {}, lead.port());
  CHECK(how.line.starts_with("no lead shard at 127.0.0.1:"));
  CHECK(watch.seconds() < patience_with_a_peer / 2);
}

TEST_CASE("a node whose lead is lost goes on with those that it knows") {
  auto without_lead = [](const std::string& why) {
    return run_end{1, why, real{0}, {shard_id{1}}};
  };
  shard_session_client_parts knows;
  knows.without_lead = without_lead;
  auto how = two_nodes{}.end_without_lead(knows, {});
  CHECK((how.next == std::vector{shard_id{1}}));
  CHECK_FALSE(how.line.empty());
  // But a node does not go on if the run is over.
  CHECK(two_nodes{}.end_without_lead(knows, 10ms).next.empty());
  auto alone = two_nodes{}.end_without_lead({}, {});
  CHECK(alone.next.empty());
  CHECK(alone.line.starts_with("no lead shard at 127.0.0.1:"));
}

TEST_CASE(
  "a shard waits for a life after one that failed, whenever it hears of "
  "that") {
  for (auto busy : {0ms, 100ms}) {
    shard_session_client_parts parts;
    parts.waits_after_failure = true;
    auto how =
      two_nodes{}.end_without_lead(parts, busy, {1, "a shard is lost"});
    CHECK(how.line.starts_with("no lead shard at 127.0.0.1:"));
  }
}

TEST_CASE("a shard asks all nodes who leads while the run's lock is held") {
  two_nodes on;
  shard_session_client_parts parts;
  parts.holder_of_lock = [] {
    return "process 1 on a";
  };
  parts.patience_with_lock = 60;
  parts.others = [&]() -> std::vector<config::address> {
    return {{"127.0.0.1", 2}, {"127.0.0.1", on.port()}};
  };
  auto nobody = uint16_t{1};
  auto how =
    on.end_of_shard([] { throw run_error("it is there"); }, nobody, parts);
  CHECK(how.line == "it is there");
}

TEST_CASE("whatever keeps a shard from being made ends its process") {
  check_all([](two_nodes& on, std::function<void()> make) {
    return on.end_of_shard(std::move(make));
  });
}
