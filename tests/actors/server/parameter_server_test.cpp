// What workers see of the parameter server.

#include "tests/support/members.hpp"
#include "tests/support/server_fixture.hpp"

#include <catch2/catch_test_macros.hpp>

#include <cmath>
#include <limits>

using namespace troupe;
using namespace troupe::test;

namespace {

/// Weights less `x`, to the last bits.
bool lower_by(float x, const payload& now, const payload& before) {
  for (size_t i : {size_t{0}, size_t{1000}, size_t{lenet_size - 1}})
    if (std::abs(number_of(before, i) - x - number_of(now, i)) > 1e-5)
      return false;
  return true;
}

payload weights_of(const weights_answer& from) {
  return from->get<payload>();
}

version version_of(const weights_answer& from) {
  return from->get<release_header>().weights;
}

} // namespace

TEST_CASE("the first pull is answered when the cluster is complete") {
  server_fixture play;
  play.settings.cluster.workers = 2;
  play.open_empty();
  play.enlist(w0, life_number{1});
  auto first = play.pull(w0);
  CHECK(first->open());
  play.enlist(w1, life_number{1});
  play.actors.tell(play.lead, join_atom_v, std::vector{w0, w1});
  CHECK(version_of(first) == version{0});
  CHECK(first->get<release_header>().leases.size() == 2);
  CHECK(first->get<release_header>().server == play.life);
  auto second = play.pull(w1);
  CHECK(version_of(second) == version{0});
  CHECK(weights_of(second).host_bytes().data() ==
        weights_of(first).host_bytes().data());
}

TEST_CASE("sync: the reply to a push is held until all have pushed") {
  server_fixture play;
  play.open(3);
  auto before = weights_of(play.players[w0].asks);
  auto first = play.push(w0, 1);
  auto second = play.push(w1, 2);
  CHECK(first->open());
  CHECK(second->open());
  auto third = play.push(w2, 3);
  for (const auto& answer : {first, second, third}) {
    CHECK(version_of(answer) == version{1});
    CHECK(weights_of(answer).host_bytes().data() ==
          weights_of(first).host_bytes().data());
    CHECK(answer->get<release_header>().leases.size() == 1);
  }
  CHECK(lower_by(0.5f * 2, weights_of(first), before));
}

TEST_CASE("the gradients of a step count by their samples") {
  server_fixture play;
  play.samples = 14;
  play.open(2);
  auto before = weights_of(play.players[w0].asks);
  auto first = play.push(w0, 1);  // 10 samples
  auto second = play.push(w1, 8); // The last 4 of the epoch.
  CHECK(lower_by(0.5f * (10 * 1 + 4 * 8) / 14, weights_of(second), before));
  auto update = play.recorder->of<notes::update>().at(0);
  CHECK(update.samples == 14);
  CHECK(update.epoch == 1);
  CHECK(play.recorder->of<notes::epoch>().size() == 1);
  CHECK(version_of(first) == version{1});
}

TEST_CASE("async: a push is answered at once with weights that have seen it") {
  server_fixture play;
  play.settings.policy.name = "async";
  play.open(2);
  auto before = weights_of(play.players[w0].asks);
  for (uint64_t step = 1; step <= 3; ++step) {
    auto answer = play.push(w0, 1);
    CHECK(version_of(answer) == version{step});
    CHECK(
      lower_by(0.5f * static_cast<float>(step), weights_of(answer), before));
    play.settle(w0);
  }
  play.push(w1, 0);
  auto gradients = play.recorder->of<notes::update>().back().gradients;
  REQUIRE(gradients.size() == 1);
  CHECK(gradients[0].staleness == 3);
}

TEST_CASE("a version never changes once it is out") {
  server_fixture play;
  play.settings.policy.name = "async";
  play.settings.training.momentum = 0.9;
  play.open(1);
  std::vector<payload> versions{weights_of(play.players[w0].asks)};
  std::vector<std::vector<std::byte>> copies;
  auto copy = [&](const payload& x) {
    copies.emplace_back(x.host_bytes().begin(), x.host_bytes().end());
  };
  copy(versions[0]);
  for (int step = 0; step < 6; ++step) {
    play.step(0.25f);
    versions.push_back(weights_of(play.players[w0].asks));
    copy(versions.back());
  }
  for (size_t i = 0; i < versions.size(); ++i) {
    CHECK(std::ranges::equal(versions[i].host_bytes(), copies[i]));
    CHECK((i == 0 || !std::ranges::equal(copies[i], copies[i - 1])));
  }
}

TEST_CASE("a gradient of wrong size is refused and counted") {
  server_fixture play;
  play.open(2);
  errc expected = errc::wrong_size;
  payload gradient;
  SECTION("too short") {
    gradient = constant_payload(lenet_size - 1, 0);
  }
  SECTION("too long") {
    gradient = constant_payload(lenet_size + 1, 0);
  }
  SECTION("none at all") {
    gradient = payload{};
  }
  SECTION("of a size only announced, without memory") {
    gradient =
      payload{{element_type::float32, UINT64_MAX / 8}, nullptr, nullptr};
  }
  SECTION("of its size, but without its bytes") {
    gradient = payload{{element_type::float32, lenet_size}, nullptr, nullptr};
  }
  SECTION("of another type") {
    gradient = payload_buffer{{element_type::float64, lenet_size}}.seal();
  }
  SECTION("of its size, but with a NaN") {
    expected = errc::not_finite;
    gradient =
      constant_payload(lenet_size, std::numeric_limits<float>::quiet_NaN());
  }
  SECTION("of its size, but infinite") {
    expected = errc::not_finite;
    gradient =
      constant_payload(lenet_size, -std::numeric_limits<float>::infinity());
  }
  auto held = play.push(w0, 1);
  auto refused = play.push(play.next_header(w1), gradient);
  CHECK(refused->code() == expected);
  CHECK(text_of(*refused->error).find("worker 1") != std::string::npos);
  REQUIRE(play.recorder->of<notes::refused>().size() == 1);
  CHECK(play.recorder->of<notes::refused>()[0].who == w1);
  // The worker pulls and does its lease once more; the step waits for it.
  play.players[w1].asks = play.pull(w1);
  CHECK(version_of(play.players[w1].asks) == version{0});
  play.settle(w1);
  CHECK(held->open());
  play.push(w1, 1);
  CHECK(version_of(held) == version{1});
  play.actors.tell(play.lead, stop_atom_v);
  CHECK(play.summary().gradients_refused == 1);
  CHECK(play.summary().gradients_applied == 2);
}

TEST_CASE("who sends nothing but bad gradients is expelled") {
  server_fixture play;
  play.open(2);
  for (int i = 0; i < 20; ++i) {
    CHECK(play.coordinator->left.empty());
    play.push(play.next_header(w1), constant_payload(3, 0));
    play.players[w1].asks = play.pull(w1);
    play.settle(w1);
  }
  REQUIRE(play.coordinator->left.size() == 1);
  CHECK(play.coordinator->left[0].worker == w1);
  CHECK(play.coordinator->left[0].life == life_number{1});
}

TEST_CASE("a gradient is applied once") {
  server_fixture play;
  play.settings.policy.name = "async";
  play.open(1);
  auto header = play.next_header(w0);
  auto gradient = constant_payload(lenet_size, 1);
  auto first = play.push(header, gradient);
  auto again = play.push(header, gradient);
  CHECK(version_of(first) == version{1});
  CHECK(again->code() == errc::duplicate);
  CHECK(play.recorder->of<notes::update>().size() == 1);
  auto newest = play.pull(w0);
  CHECK(weights_of(newest).host_bytes().data() ==
        weights_of(first).host_bytes().data());
}

TEST_CASE("a retry while the first is held is not held, too") {
  server_fixture play;
  play.open(2);
  auto header = play.next_header(w0);
  auto gradient = constant_payload(lenet_size, 1);
  auto first = play.push(header, gradient);
  auto again = play.push(header, gradient);
  CHECK(again->code() == errc::duplicate);
  CHECK(first->open());
  play.push(w1, 1);
  CHECK(version_of(first) == version{1});
  CHECK(play.recorder->of<notes::update>().at(0).gradients.size() == 2);
}

TEST_CASE("a gradient of a lease that is not the worker's own is refused") {
  server_fixture play;
  play.open(2);
  auto stolen = play.next_header(w1);
  SECTION("of another worker") {
    stolen.from = play.next_header(w0).from;
  }
  SECTION("of nobody") {
    stolen.from = lease_id{4711};
  }
  SECTION("of another number of samples") {
    ++stolen.samples;
  }
  auto refused = play.push(stolen, constant_payload(lenet_size, 1));
  CHECK(refused->code() == errc::protocol_violation);
  CHECK(play.recorder->of<notes::refused>().size() == 1);
}

TEST_CASE("what was meant for an earlier life of the server is refused") {
  server_fixture play;
  play.life = life_number{2};
  play.open(1);
  auto header = play.next_header(w0);
  header.server = life_number{1};
  CHECK(play.push(header, constant_payload(lenet_size, 0))->code() ==
        errc::stale_incarnation);
  auto pull = play.actors.ask<release_header, payload>(
    play.lead, pull_atom_v,
    pull_header{w0, life_number{1}, life_number{1}, lease_id{0}});
  play.actors.run();
  CHECK(pull->code() == errc::stale_incarnation);
  CHECK(play.recorder->of<notes::update>().empty());
}

TEST_CASE("strangers are refused") {
  server_fixture play;
  play.open(1);
  auto header = play.next_header(w0);
  header.id.worker = w2;
  CHECK(play.push(header, constant_payload(lenet_size, 0))->code() ==
        errc::unknown_member);
  play.players[w2];
  CHECK(play.pull(w2)->code() == errc::unknown_member);
}

TEST_CASE("a push of an earlier life of a worker is refused") {
  server_fixture play;
  play.open(2);
  auto header = play.next_header(w0);
  play.leave(w0);
  play.enlist(w0, life_number{2});
  play.actors.tell(play.lead, join_atom_v, std::vector{w0});
  auto late = play.push(header, constant_payload(lenet_size, 1));
  CHECK(late->code() == errc::unknown_member);
  auto joined = play.pull(w0);
  play.push(w1, 1);
  CHECK(version_of(joined) == version{1});
  CHECK(play.recorder->of<notes::update>().at(0).gradients.size() == 1);
}

TEST_CASE("who leaves shrinks the barrier; its request is answered") {
  server_fixture play;
  play.open(3);
  auto first = play.push(w0, 1);
  auto second = play.push(w1, 1);
  SECTION("one that the others wait for") {
    play.leave(w2);
    CHECK(version_of(first) == version{1});
    CHECK(version_of(second) == version{1});
    CHECK(play.recorder->of<notes::update>().at(0).gradients.size() == 2);
  }
  SECTION("one that waits: its gradient counts") {
    play.leave(w0);
    CHECK(first->code() == errc::unknown_member);
    CHECK(second->open());
    play.push(w2, 1);
    CHECK(version_of(second) == version{1});
    CHECK(play.recorder->of<notes::update>().at(0).gradients.size() == 3);
  }
  REQUIRE(play.recorder->of<notes::left>().size() == 1);
  CHECK(play.recorder->of<notes::left>()[0].reason == "gone");
}

TEST_CASE("a departure of an earlier life is ignored") {
  server_fixture play;
  play.open(1);
  play.leave(w0);
  play.enlist(w0, life_number{2});
  play.actors.tell(play.lead, join_atom_v, std::vector{w0});
  play.actors.tell(play.lead, leave_atom_v, w0, life_number{1},
                   std::string{"late news"});
  play.players[w0].asks = play.pull(w0);
  CHECK(version_of(play.players[w0].asks) == version{0});
  CHECK(play.recorder->of<notes::left>().size() == 1);
}

TEST_CASE("backup: late ones are dropped or told to stop") {
  server_fixture play;
  play.settings.policy.name = "backup";
  play.settings.policy.parameters["backup-workers"] = "1";
  SECTION("drop") {
    play.open(3);
    play.push(w0, 1);
    play.push(w1, 1);
    auto late = play.push(w2, 1);
    CHECK(version_of(late) == version{1});
    REQUIRE(play.recorder->of<notes::dropped>().size() == 1);
    CHECK(play.recorder->of<notes::dropped>()[0].who == w2);
    CHECK(play.recorder->of<notes::dropped>()[0].samples == 10);
  }
  SECTION("cancel") {
    play.settings.policy.parameters["late"] = "cancel";
    play.open(3);
    play.push(w0, 1);
    play.push(w1, 1);
    CHECK((play.players[w2].handle->cancelled == std::vector{version{1}}));
    CHECK(play.recorder->of<notes::cancelled>().size() == 1);
  }
}
