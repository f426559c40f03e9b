// What becomes of a gradient whose norm is far beyond those of other workers.

#include "tests/support/members.hpp"
#include "tests/support/server_fixture.hpp"

#include <catch2/catch_test_macros.hpp>

#include <cmath>

using namespace troupe;
using namespace troupe::test;

namespace {

/// A server of three workers, asynchronous, that refuses outliers.
struct watching_server {
  explicit watching_server(uint32_t shards = 1, bool remote = false) {
    play.event_log = [this](proto::LogEvent& event) {
      if (event.has_arrived())
        arrived.push_back(event.arrived());
    };
    play.remote_shards = remote;
    play.settings.cluster.shards = shards;
    play.settings.policy.name = "async";
    play.settings.training.outliers = "refuse(factor=10)";
    play.open(3);
  }

  void train(worker_id who, float x) {
    REQUIRE(play.push(who, x)->values);
    play.settle(who);
  }

  /// The worker asks for weights, as it does after a refusal.
  void go_on(worker_id who) {
    play.players[who].asks = play.pull(who);
    REQUIRE(play.players[who].asks->values);
    play.settle(who);
  }

  std::vector<proto::LogArrived> arrived;
  server_fixture play;
};

double norm_of(double x) {
  return x * std::sqrt(static_cast<double>(lenet_size));
}

} // namespace

TEST_CASE("an outlier is refused, and its samples go to another worker") {
  watching_server on;
  auto& play = on.play;
  for (auto who : {w0, w1, w2})
    on.train(who, 0.001F);
  auto work = play.players[w0].leases.at(0);
  CHECK(play.push(w0, 1.F)->code() == errc::outlier);
  on.go_on(w0);
  CHECK(play.players[w0].reads == version{3}); // It has made no step.
  CHECK(play.players[w0].leases.back().first > work.first);
  on.train(w0, 0.001F);
  on.train(w1, 0.001F);
  auto again = play.players[w1].leases.back();
  CHECK(again.first == work.first);
  CHECK(again.count == work.count);
  const auto& refused = on.arrived.at(3);
  CHECK(refused.refused() == "outlier");
  CHECK(std::abs(refused.norm() / norm_of(1) - 1) < 1e-6);
  CHECK(std::abs(refused.median() / norm_of(0.001) - 1) < 1e-6);
  CHECK_FALSE(on.arrived.at(0).has_median());
  CHECK_FALSE(on.arrived.at(1).has_median());
  CHECK(on.arrived.at(2).has_median());
  CHECK(on.arrived.at(4).refused().empty());
  CHECK(on.arrived.at(4).has_norm());
}

TEST_CASE("twenty outliers in a row expel a worker, with what to do") {
  watching_server on;
  for (auto who : {w0, w1, w2})
    on.train(who, 0.001F);
  for (int i = 0; i < 20; ++i) {
    CHECK(on.play.coordinator->left.empty());
    CHECK(on.play.push(w2, -3.F)->code() == errc::outlier);
    on.go_on(w2);
    on.train(w0, 0.001F);
  }
  REQUIRE(on.play.coordinator->left.size() == 1);
  CHECK(on.play.coordinator->left.front().reason ==
        "expelled: its last 20 gradients were refused (gradient has a "
        "norm of 1.97e+03, and the median of other workers' is "
        "0.657); look at its data and its machine, or give --outliers "
        "a larger factor");
}

TEST_CASE("a gradient with a NaN is not judged, and neither is anything when "
          "norms are not watched") {
  watching_server on;
  for (auto who : {w0, w1, w2})
    on.train(who, 0.001F);
  auto nan = std::numeric_limits<float>::quiet_NaN();
  CHECK(on.play.push(w0, nan)->code() == errc::not_finite);
  CHECK_FALSE(on.arrived.back().has_norm());
  on.go_on(w0);
  on.train(w0, 0.001F);
  CHECK(on.arrived.back().median() == on.arrived.at(2).median());

  std::vector<proto::LogArrived> all;
  server_fixture plain;
  plain.event_log = [&](proto::LogEvent& event) {
    if (event.has_arrived())
      all.push_back(event.arrived());
  };
  plain.open(3);
  plain.step(0.001F);
  plain.step(10.F);
  REQUIRE(all.size() == 6);
  for (const auto& one : all)
    CHECK((one.refused().empty() && !one.has_norm() && !one.has_median()));
}

TEST_CASE("a gradient has the same norm however many shards there are") {
  auto play = [](uint32_t shards, bool remote) {
    watching_server on{shards, remote};
    for (auto x : {0.25F, -1.F / 3, 0.7F})
      for (auto who : {w0, w1, w2})
        on.train(who, x / static_cast<float>(who.value + 3));
    CHECK(on.play.push(w1, 77.F)->code() == errc::outlier);
    on.go_on(w1);
    on.train(w1, 0.1F);
    std::string out;
    for (const auto& one : on.arrived)
      out += one.SerializeAsString();
    return out;
  };
  auto expected = play(1, false);
  CHECK(play(3, false) == expected);
  for (uint32_t shards : {2, 3, 5}) {
    INFO(shards);
    CHECK(play(shards, true) == expected);
  }
}
