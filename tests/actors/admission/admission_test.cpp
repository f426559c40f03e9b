// Which peers are admitted, and how long a peer without an answer is kept.

#include "actors/admission/admission.hpp"
#include "messages/protocol.hpp"
#include "tests/support/doubles.hpp"

#include <catch2/catch_test_macros.hpp>

using namespace troupe;
using namespace troupe::test;

namespace {

/// A node that says hello whenever it is told to, as a session client does.
admission_actor make_caller(actor_fixture& actors,
                            const admission_actor& admission) {
  return actors.stand_in<admission_actor>([admission](auto* self) {
    return admission_actor::behavior_type{
      [self, admission](const std::string& hello)
        -> caf::result<std::string, caf::strong_actor_ptr> {
        auto answer =
          self->template make_response_promise<std::string,
                                               caf::strong_actor_ptr>();
        self->request(admission, caf::infinite, hello)
          .then([answer](const std::string& welcome,
                         const caf::strong_actor_ptr& inside) mutable {
            answer.deliver(welcome, inside);
          });
        return answer;
      }};
  });
}

struct entrance {
  explicit entrance(size_t most_expected = 10, admission_parts parts = {}) {
    serve(std::move(parts), most_expected);
  }

  void serve(admission_parts parts, size_t most_expected = 10,
             bool leads = true) {
    parts.weights = {element_type::float32, 10};
    parts.whole = parts.weights;
    parts.server = server.handle;
    if (leads)
      parts.coordinator = coordinator.handle;
    parts.patience = 3;
    parts.most_expected = most_expected;
    admission = actors.make<admission_actor, admission_state>(std::move(parts));
  }

  answer_ptr<std::string, caf::strong_actor_ptr>
  ask(const admission_actor& caller, const std::string& role,
      bool seeks_lead = false) {
    proto::Hello out;
    out.set_protocol(protocol_version);
    out.set_role(role);
    out.set_seeks_lead(seeks_lead);
    return ask(caller, out);
  }

  answer_ptr<std::string, caf::strong_actor_ptr>
  ask(const admission_actor& caller, const proto::Hello& hello) {
    auto answer = actors.ask<std::string, caf::strong_actor_ptr>(
      caller, hello.SerializeAsString());
    actors.run();
    return answer;
  }

  /// The gateway of this caller.
  gateway_actor hello(const admission_actor& caller) {
    return caf::actor_cast<gateway_actor>(
      ask(caller, "worker")->get<caf::strong_actor_ptr>());
  }

  proto::Welcome welcome(const std::string& role, bool seeks_lead = false) {
    proto::Welcome out;
    auto answer = ask(admission, role, seeks_lead);
    out.ParseFromString(answer->get<std::string>());
    return out;
  }

  gateway_actor hello() { return hello(make_caller(actors, admission)); }

  /// The caller comes with a link.
  answer_ptr<coordinator_actor> come(const gateway_actor& to,
                                     const parameter_server_actor& link) {
    auto out = actors.ask<coordinator_actor>(to, attach_atom_v, link);
    actors.run();
    return out;
  }

  actor_fixture actors;
  server_stand_in server = make_server_stand_in(actors);
  server_stand_in link = make_server_stand_in(actors);
  coordinator_stand_in coordinator = make_coordinator_stand_in(actors);
  admission_actor admission;
};

} // namespace

TEST_CASE("a peer that says hello and does not come is waited for a while") {
  entrance it;
  auto stays = it.hello();
  auto goes = it.hello();
  CHECK(it.come(stays, it.link.handle)->values);
  it.actors.advance(2.9);
  CHECK(it.actors.alive(goes));
  it.actors.advance(0.2);
  CHECK_FALSE(it.actors.alive(goes));
  it.actors.advance(10);
  CHECK(it.actors.alive(stays));
  it.actors.kill(it.link.handle);
  CHECK_FALSE(it.actors.alive(stays));
}

TEST_CASE("peers and evaluators are told where the others and the files are") {
  admission_parts parts;
  auto roster = std::make_shared<shard_roster>();
  roster->open({{"10.0.0.2", 5000}});
  parts.roster = roster;
  parts.run_directory = "/data/run";
  entrance it{10, parts};
  for (auto role : {"worker", "evaluator"}) {
    INFO(role);
    auto found = it.welcome(role);
    CHECK(found.run_directory() == "/data/run");
    REQUIRE(found.shards_size() == 1);
    CHECK(found.shards(0).host() == "10.0.0.2");
    CHECK(found.shards(0).port() == 5000);
  }
}

TEST_CASE("who seeks the lead is not let in by another shard") {
  entrance it;
  CHECK(it.welcome("evaluator", true).accepted());
  admission_parts parts;
  parts.server = it.server.handle;
  parts.weights = {element_type::float32, 10};
  it.admission =
    it.actors.make<admission_actor, admission_state>(std::move(parts));
  auto found = it.welcome("evaluator", true);
  CHECK_FALSE(found.accepted());
  CHECK(found.later());
  CHECK(found.refusal() == "it does not lead the run");
  CHECK(it.welcome("worker").accepted());
}

TEST_CASE("a shard that takes the run to have other nodes is told of these") {
  admission_parts parts;
  parts.nodes = {{"10.0.0.1", 4000}, {"10.0.0.3", 5000}};
  parts.settings.cluster.shards = 3; // One has joined and has no address yet.
  parts.shard_counts = {4, 3, 3};
  entrance it;
  bool seeks = false; // Whether it looks for the lead at all nodes.
  auto answer = [&](const config::address& from, uint32_t rank,
                    uint32_t peers) {
    proto::Hello hello;
    hello.set_protocol(protocol_version);
    hello.set_role("ps");
    hello.set_rank(rank);
    hello.set_peers(peers);
    hello.mutable_address()->set_host(from.host);
    hello.mutable_address()->set_port(from.port);
    hello.set_seeks_lead(seeks);
    proto::Welcome out;
    out.ParseFromString(it.ask(it.admission, hello)->get<std::string>());
    return out;
  };
  parts.registrar = caf::actor_cast<shard_registrar_actor>(it.server.handle);
  for (bool leads : {true, false}) {
    INFO(leads);
    if (!leads)
      parts.registrar = shard_registrar_actor{};
    it.serve(parts, 10, leads);
    auto found = answer({"10.0.0.3", 5000}, 1, 4);
    CHECK_FALSE(found.accepted());
    CHECK_FALSE(found.later());
    CHECK(found.refusal() == "the run has gone on with other nodes");
    CHECK(found.peers() == 3);
    REQUIRE(found.nodes_size() == 2);
    CHECK(found.nodes(1).host() == "10.0.0.3");
    CHECK(found.nodes(1).port() == 5000);
    // The node has the right number of nodes, but another rank.
    CHECK(answer({"10.0.0.3", 5000}, 2, 3).nodes_size() == 2);
    // The same nodes: only the lead lets it in.
    CHECK(answer({"10.0.0.3", 5000}, 1, 3).accepted() == leads);
    // A node that was left out.
    CHECK(answer({"10.0.0.2", 5000}, 1, 4).nodes_size() == 0);
    seeks = true;
    found = answer({"10.0.0.3", 5000}, 1, 4);
    CHECK_FALSE(found.later());
    CHECK(found.nodes_size() == 2);
    found = answer({"10.0.0.3", 5000}, 1, 3);
    CHECK(found.accepted() == leads);
    CHECK(found.later() != leads);
    seeks = false;
  }
}

TEST_CASE("a peer that goes before it comes leaves nothing behind") {
  entrance it;
  auto caller = make_caller(it.actors, it.admission);
  auto gateway = it.hello(caller);
  CHECK(it.actors.alive(gateway));
  it.actors.kill(caller);
  CHECK_FALSE(it.actors.alive(gateway));
}

TEST_CASE("who says hello again has given up what it was given before") {
  entrance it;
  auto caller = make_caller(it.actors, it.admission);
  auto first = it.hello(caller);
  auto second = it.hello(caller);
  CHECK_FALSE(it.actors.alive(first));
  CHECK(it.actors.alive(second));
  // But a gateway that has a link stays: a node may have more than one link.
  it.come(second, it.link.handle);
  auto third = it.hello(caller);
  CHECK(it.actors.alive(second));
  CHECK(it.actors.alive(third));
}

TEST_CASE("only so many peers are waited for at a time") {
  entrance it{2};
  auto first = it.hello();
  auto second = it.hello();
  it.come(second, it.link.handle);
  auto third = it.hello();
  CHECK(it.actors.alive(first));
  auto fourth = it.hello();
  CHECK_FALSE(it.actors.alive(first));
  for (const auto& one : {second, third, fourth})
    CHECK(it.actors.alive(one));
}

TEST_CASE("a peer that comes without a link is refused") {
  entrance it;
  auto gateway = it.hello();
  CHECK(it.come(gateway, parameter_server_actor{})->code() ==
        errc::protocol_violation);
  CHECK_FALSE(it.actors.alive(gateway));
}
