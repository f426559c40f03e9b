// Remote shards and the joined link: requests whose parts arrive one by one.

#include "config/text/failure.hpp"
#include "tests/support/error_line.hpp"
#include "tests/support/members.hpp"
#include "tests/support/part_host.hpp"
#include "tests/support/scores.hpp"
#include "tests/support/server_fixture.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <optional>
#include <span>
#include <string>
#include <vector>

using namespace troupe;
using namespace troupe::test;

namespace {

std::unique_ptr<server_fixture>
open_remote(uint32_t shards, const char* policy,
            std::optional<double> clip_norm = {},
            const std::string& optimizer = "sgd") {
  auto out = std::make_unique<server_fixture>();
  out->remote_shards = shards > 1;
  out->settings.cluster.shards = shards;
  out->settings.policy.name = policy;
  out->settings.training.clip_norm = clip_norm;
  out->settings.training.optimizer = optimizer;
  out->open(2);
  return out;
}

/// The weights after a few steps of two workers.
payload after_steps(server_fixture& on) {
  for (auto x : {0.25f, -1.f / 3, 0.7f}) {
    on.push(w0, x);
    on.push(w1, -x / 5);
    for (auto who : {w0, w1}) {
      REQUIRE(on.players[who].asks->values);
      on.settle(who);
    }
  }
  return on.players[w1].asks->get<payload>();
}

/// The part of the first remote shard of a gradient that is all `x`.
weights_answer push_part(server_fixture& on, const push_header& header,
                         float x) {
  auto out = on.actors.ask<release_header, payload>(
    on.remote.at(0), push_atom_v, header,
    constant_payload(on.part_sizes.at(0), x));
  on.actors.run();
  return out;
}

} // namespace

TEST_CASE("a worker that dies between two parts leaves no trace") {
  auto on = open_remote(2, "sync");
  auto held = push_part(*on, on->next_header(w0), 4);
  CHECK(held->open());
  on->leave(w0);
  on->actors.run();
  CHECK(held->code() == errc::unknown_member);
  auto alone = open_remote(2, "sync");
  alone->leave(w0);
  for (auto* one : {on.get(), alone.get()})
    REQUIRE(one->push(w1, 0.5f)->values);
  CHECK(same_bytes(on->players[w1].asks->get<payload>(),
                   alone->players[w1].asks->get<payload>()));
  // What the dead have sent before comes late.
  auto late = push_part(*on, on->next_header(w0), 4);
  CHECK(late->code() == errc::unknown_member);
}

TEST_CASE("a push is applied when its last part has come") {
  auto on = open_remote(3, "async");
  auto header = on->next_header(w0);
  auto lead_part = on->actors.ask<release_header, payload>(
    on->lead, push_atom_v, header,
    constant_payload(lenet_size - on->part_sizes[0] - on->part_sizes[1], 0.5f));
  on->actors.run();
  auto first = push_part(*on, header, 0.5f);
  CHECK(lead_part->open());
  CHECK(first->open());
  auto second = on->actors.ask<release_header, payload>(
    on->remote.at(1), push_atom_v, header,
    constant_payload(on->part_sizes[1], 0.5f));
  on->actors.run();
  for (const auto& part : {lead_part, first, second}) {
    REQUIRE(part->values);
    CHECK(part->get<release_header>().weights == version{1});
  }
}

TEST_CASE("a worker that asks anew has given up what it asked before") {
  auto on = open_remote(2, "async");
  auto given_up = push_part(*on, on->next_header(w0), 4);
  auto again = on->pull(w0);
  CHECK(given_up->code() == errc::duplicate);
  REQUIRE(again->values);
  CHECK(again->get<release_header>().weights == version{0});
  // The gradient that was given up is in no step.
  on->push(w1, 0.5f);
  auto same = open_remote(2, "async");
  same->push(w1, 0.5f);
  CHECK(same_bytes(on->players[w1].asks->get<payload>(),
                   same->players[w1].asks->get<payload>()));
}

TEST_CASE("what comes twice to a shard is refused") {
  auto on = open_remote(2, "sync");
  auto header = on->next_header(w0);
  CHECK(on->push(header, constant_payload(lenet_size, 1))->open());
  header.request = header.request.next();
  auto twice = on->push(header, constant_payload(lenet_size, 9));
  CHECK(twice->code() == errc::duplicate);
  // And the first is applied.
  auto& one = on->players[w0];
  one.requests = header.request;
  on->push(w1, 1);
  REQUIRE(on->players[w1].asks->values);
  auto same = open_remote(2, "sync");
  same->push(w0, 1);
  same->push(w1, 1);
  CHECK(same_bytes(on->players[w1].asks->get<payload>(),
                   same->players[w1].asks->get<payload>()));
}

TEST_CASE("a step is clipped by its norm over all shards, to the bit") {
  const auto* policy = GENERATE("sync", "async", "ssp");
  auto whole = after_steps(*open_remote(1, policy, 2));
  CHECK_FALSE(same_bytes(whole, after_steps(*open_remote(1, policy))));
  for (uint32_t shards : {2, 3, 5}) {
    INFO(shards);
    auto on = open_remote(shards, policy, 2);
    CHECK(same_bytes(whole, after_steps(*on)));
  }
}

TEST_CASE("what comes while a norm is asked for waits for the step") {
  auto on = open_remote(2, "async", 2);
  auto late = on->next_header(w1);
  // Both parts are there before the shard has answered for the first step.
  std::vector<weights_answer> answers;
  for (auto who : {w0, w1}) {
    auto header = who == w1 ? late : on->next_header(who);
    auto rest = lenet_size - on->part_sizes[0];
    on->actors.ask<release_header, payload>(
      on->remote[0], push_atom_v, header,
      constant_payload(on->part_sizes[0], 0.5f));
    answers.push_back(on->actors.ask<release_header, payload>(
      on->lead, push_atom_v, header, constant_payload(rest, 0.5f)));
  }
  on->actors.run();
  for (uint64_t i = 0; i < 2; ++i) {
    REQUIRE(answers[i]->values);
    CHECK(answers[i]->get<release_header>().weights == version{i + 1});
  }
}

TEST_CASE("a shard that is lost while its norms are asked for ends the run") {
  auto on = GENERATE(0, 1) == 0 ? open_remote(2, "async", 2)
                                : open_remote(2, "async", {}, "lamb");
  auto header = on->next_header(w0);
  push_part(*on, header, 0.5f);
  on->actors.ask<release_header, payload>(
    on->lead, push_atom_v, header,
    constant_payload(lenet_size - on->part_sizes[0], 0.5f));
  caf::anon_send_exit(on->remote[0], caf::exit_reason::kill);
  on->actors.run();
  CHECK(on->summary().status == "failed");
  auto line =
    std::get<notes::finished>(on->recorder->finished.at(0)->what).line;
  CHECK(line.find("parameter server shard 1 at localhost:1 is lost") == 0);
}

TEST_CASE("of a step that waits for a lost shard nothing is saved, whatever "
          "comes meanwhile") {
  auto on = GENERATE(0, 1) == 0 ? open_remote(2, "async", 2)
                                : open_remote(2, "async", {}, "lamb");
  auto what = GENERATE(0, 1, 2, 3);
  on->settings.checkpoint.checkpoint_freq = 1;
  auto header = on->next_header(w0);
  push_part(*on, header, 0.5f);
  on->actors.ask<release_header, payload>(
    on->lead, push_atom_v, header,
    constant_payload(lenet_size - on->part_sizes[0], 0.5f));
  caf::anon_send_exit(on->remote[0], caf::exit_reason::kill);
  if (what == 0)
    caf::anon_send(on->lead, stop_atom_v);
  else if (what == 1)
    caf::anon_send(on->lead, leave_atom_v, w1, life_number{1},
                   std::string{"gone"});
  else if (what == 2)
    caf::anon_send(on->lead, score_atom_v, testing::scored(0, 0.9));
  else
    caf::anon_send(on->lead, evaluators_atom_v, uint32_t{1});
  on->actors.run();
  on->actors.advance(2);
  CHECK(on->writer->snapshots.empty());
  CHECK(on->summary().status == "failed");
}

TEST_CASE("the samples of a gradient that one shard alone refuses are given "
          "back") {
  auto on = open_remote(3, "async");
  auto asks_at_once = GENERATE(false, true);
  auto first = on->players[w0].leases.at(0);
  auto header = on->next_header(w0);
  auto part = [&](const auto& shard, uint64_t count) {
    return on->actors.ask<release_header, payload>(
      shard, push_atom_v, header, constant_payload(count, 0.5f));
  };
  auto lead =
    part(on->lead, lenet_size - on->part_sizes[0] - on->part_sizes[1]);
  auto good = part(on->remote.at(0), on->part_sizes[0]);
  std::optional<weights_answer> early;
  if (asks_at_once) {
    on->actors.run();
    early = on->pull(w0); // Before the shard's report has come.
  }
  auto bad = part(on->remote.at(1), on->part_sizes[1] + 1);
  on->actors.run();
  CHECK(bad->code() == errc::wrong_size);
  CHECK(good->open() != asks_at_once);
  if (!asks_at_once)
    CHECK(lead->code() == errc::wrong_size);
  auto again = early ? *early : on->pull(w0);
  REQUIRE(again->values);
  const auto& dealt = again->get<release_header>().leases;
  REQUIRE(dealt.size() == 1);
  CHECK(dealt[0].first == first.first);
  CHECK(dealt[0].count == first.count);
}

TEST_CASE("a shard that measures what there is not ends the run") {
  auto on = open_remote(2, "async", {}, "lamb");
  part_host lead;
  auto odd = lead.actors.system().spawn([](caf::event_based_actor*) {
    return caf::behavior{[](measure_atom, const shard_step&) {
      return shard_measures{{{7, {{1}}, {{1}}}, {8, {{1}}, {{1}}}}};
    }};
  });
  shard_group uut{lead.self, 1, {}};
  uut.begin({}, {caf::actor_cast<remote_shard_actor>(odd)});
  std::vector<models::parameter_squares> found;
  uut.measure({}, [&](std::span<const models::parameter_squares> all) {
    found.assign(all.begin(), all.end());
  });
  lead.actors.run();
  REQUIRE(found.size() == 2);
  server_model model{on->settings.training, 10};
  CHECK(error_line<run_error>([&] { model.factors_of(found); }) ==
        "a shard has measured parameter 8 of a network of 8");
  CHECK_THROWS_AS(model.factors_of(std::span{found}.last(1)), run_error);
  CHECK(model.factors_of(std::span{found}.first(1)).at(7) == 1);
}

TEST_CASE("a shard that does not know such an optimiser refuses to measure") {
  auto on = open_remote(2, "sync");
  on->actors.tell(on->remote.at(0), measure_atom_v,
                  shard_step{version{1}, {}, {}, 0.1});
  CHECK_FALSE(on->actors.alive(on->remote.at(0)));
  auto lamb = open_remote(2, "sync", {}, "lamb");
  lamb->actors.tell(lamb->remote.at(0), order_atom_v,
                    shard_step{version{1}, {}, {}, 0.1});
  CHECK_FALSE(lamb->actors.alive(lamb->remote.at(0)));
}

TEST_CASE("a shard that misses an order ends the run") {
  auto on = open_remote(2, "sync");
  on->actors.tell(on->remote.at(0), order_atom_v,
                  shard_step{version{5}, {}, {}, 0.1});
  CHECK_FALSE(on->actors.alive(on->remote.at(0)));
  on->actors.run();
  CHECK(on->summary().status == "failed");
  auto line =
    std::get<notes::finished>(on->recorder->finished.at(0)->what).line;
  CHECK(
    line.find("parameter server shard 1 at localhost:1 is lost (told to make "
              "version 5 from 0)") == 0);
}

TEST_CASE("remote shards hear how the run ends") {
  auto on = open_remote(3, "sync");
  on->actors.tell(on->registrar, leave_atom_v, shard_id{2});
  CHECK(on->summary().status == "stopped");
  REQUIRE(on->ends.size() == 2);
  CHECK(on->ends[0].status == 75);
  CHECK(on->push(w0, 1)->error);
}

TEST_CASE("a rank is taken once, and the roster says who is missing") {
  server_fixture on;
  on.remote_shards = true;
  on.settings.cluster.shards = 3;
  on.open_empty();
  REQUIRE(on.roster->all());
  CHECK(on.roster->all()->at(1).port == 2);
  auto again =
    on.actors.ask<>(on.registrar, register_atom_v, shard_id{1},
                    std::string{"there"}, uint16_t{9}, on.remote.at(0));
  on.actors.run();
  CHECK(again->code() == errc::rank_taken);
  shard_roster empty;
  empty.wait_for({shard_id{1}, shard_id{4}});
  CHECK_FALSE(empty.all());
  CHECK(empty.missing() == "parameter server shards 1, 4");
}

namespace {

/// A link that keeps what it gets, and whose answers the test gives.
struct part_notes {
  std::vector<payload> gradients;
  std::vector<caf::typed_response_promise<release_header, payload>> asks;
};

using part_stand_in = stand_in<part_notes, parameter_server_actor>;

part_stand_in make_part(actor_fixture& actors) {
  part_stand_in out;
  auto seen = out.seen;
  out.handle = actors.stand_in<parameter_server_actor>([seen](auto* self) {
    using weights = caf::result<release_header, payload>;
    auto hold = [seen, self]() -> weights {
      seen->asks.push_back(
        self->template make_response_promise<release_header, payload>());
      return seen->asks.back();
    };
    return parameter_server_actor::behavior_type{
      [seen, hold](push_atom, const push_header&, const payload& gradient) {
        seen->gradients.push_back(gradient);
        return hold();
      },
      [hold](pull_atom, const pull_header&) { return hold(); },
      [](watch_atom,
         const watch_request&) -> caf::result<watch_header, payload> {
        return caf::make_error(errc::failed);
      },
      [](score_atom, const score&) {},
    };
  });
  return out;
}

release_header of_version(uint64_t x) {
  release_header out;
  out.weights = version{x};
  return out;
}

/// A joined link of 3 elements of a shard, and 2 of the lead.
struct two_parts {
  actor_fixture actors;
  part_stand_in shard = make_part(actors);
  part_stand_in lead = make_part(actors);
  parameter_server_actor link =
    actors.make<readable_module_actor, joined_link_state>(
      joined_link_parts{{{shard.handle, 3}, {lead.handle, 2}}});
};

} // namespace

TEST_CASE("a joined link cuts gradients into views and joins answers") {
  two_parts on;
  auto gradient = constant_payload(5, 7);
  auto answer = on.actors.ask<release_header, payload>(on.link, push_atom_v,
                                                       push_header{}, gradient);
  on.actors.run();
  CHECK(on.shard->gradients.at(0).host_bytes().data() ==
        gradient.host_bytes().data());
  CHECK(on.shard->gradients.at(0).shape().count == 3);
  CHECK(on.lead->gradients.at(0).host_bytes().data() ==
        gradient.host_bytes().data() + 12);
  CHECK(on.lead->gradients.at(0).shape().count == 2);
  auto header = of_version(4);
  header.leases = {{lease_id{1}, 2, 3, 4}};
  on.lead->asks.at(0).deliver(header, constant_payload(2, 2));
  on.actors.run();
  CHECK(answer->open());
  on.shard->asks.at(0).deliver(of_version(4), constant_payload(3, 2));
  on.actors.run();
  CHECK(same_bytes(answer->get<payload>(), constant_payload(5, 2)));
  CHECK((answer->get<release_header>().leases == header.leases));
}

TEST_CASE("a joined link knows how large the parts of a fragment are") {
  actor_fixture actors;
  auto shard = make_part(actors);
  auto lead = make_part(actors);
  auto link =
    actors.make<readable_module_actor, joined_link_state>(joined_link_parts{
      {{shard.handle, 3, {2, 1, 0}}, {lead.handle, 2, {0, 1, 1}}}});
  auto asks = [&](const auto&... message) {
    auto out = actors.ask<release_header, payload>(link, message...);
    actors.run();
    return out;
  };
  auto answer_with = [&](uint32_t next, uint64_t of_shard, uint64_t of_lead) {
    auto header = of_version(4);
    header.fragment = next;
    header.goes_on = of_shard + of_lead < 5;
    shard->asks.back().deliver(header, constant_payload(of_shard, 2));
    lead->asks.back().deliver(header, constant_payload(of_lead, 2));
    actors.run();
  };
  auto pulled = asks(pull_atom_v, pull_header{});
  answer_with(2, 3, 2);
  CHECK(same_bytes(pulled->get<payload>(), constant_payload(5, 2)));
  auto push = asks(push_atom_v, push_header{}, constant_payload(1, 7));
  CHECK(shard->gradients.back().shape().count == 0);
  CHECK(lead->gradients.back().shape().count == 1);
  answer_with(0, 0, 1); // Of the fragment that was pushed.
  CHECK(same_bytes(push->get<payload>(), constant_payload(1, 2)));
  push = asks(push_atom_v, push_header{}, constant_payload(2, 7));
  CHECK(shard->gradients.back().shape().count == 2);
  CHECK(lead->gradients.back().shape().count == 0);
  answer_with(1, 1, 1); // Of another one.
  CHECK(push->code() == errc::protocol_violation);
}

TEST_CASE("a joined link refuses parts of two versions") {
  two_parts on;
  auto answer =
    on.actors.ask<release_header, payload>(on.link, pull_atom_v, pull_header{});
  on.actors.run();
  on.shard->asks.at(0).deliver(of_version(3), constant_payload(3, 2));
  on.lead->asks.at(0).deliver(of_version(4), constant_payload(2, 2));
  on.actors.run();
  CHECK(answer->code() == errc::protocol_violation);
}

TEST_CASE("a joined link ends with its first part, and ends the others") {
  two_parts on;
  auto answer =
    on.actors.ask<release_header, payload>(on.link, pull_atom_v, pull_header{});
  on.actors.run();
  on.actors.kill(on.shard.handle);
  CHECK(answer->code() == errc::peer_lost);
  CHECK_FALSE(on.actors.alive(on.link));
  CHECK_FALSE(on.actors.alive(on.lead.handle));
}
