// Weights and rates that a policy gives: what they do to the numbers, on all
// shards, and that the event log has them.

#include "actors/policies/registration.hpp"
#include "tests/support/members.hpp"
#include "tests/support/paired_policy.hpp"
#include "tests/support/server_fixture.hpp"

#include <catch2/catch_test_macros.hpp>

using namespace troupe;
using namespace troupe::test;

namespace {

const policies::register_policy known{
  {{.schema = {"paired",
               {{"lower", "X", "weight of the lower rank",
                 config::number_from(0, 100), "1"}}},
    .sentence = [](const config::arguments&,
                   uint32_t) { return "two gradients make a step"; },
    .gradients_per_step = [](const config::arguments&, uint32_t) { return 2; },
    .versions_behind =
      [](const config::arguments&, uint32_t) {
        return 2;
      }},
   [](const policies::policy_spec& spec) {
     return std::make_unique<paired_policy>(spec);
   }}};

/// By how much one step of gradients 1 (rank 0) and 4 (rank 1) lowers the
/// weights, by samples alike; and the log of it.
std::pair<float, proto::LogUpdate> step_with(const std::string& lower,
                                             bool remote_shards) {
  server_fixture play;
  proto::LogUpdate found;
  play.remote_shards = remote_shards;
  play.settings.cluster.shards = remote_shards ? 2 : 1;
  play.settings.policy.name = "paired";
  play.settings.policy.parameters["lower"] = lower;
  play.event_log = [&](proto::LogEvent& event) {
    for (const auto& update : event.decision().updates())
      found = update;
  };
  play.open(2);
  auto before = play.players[w0].asks->get<payload>();
  play.push(w0, 1);
  play.push(w1, 4);
  auto after = play.players[w1].asks->get<payload>();
  auto lowered = number_of(before, 7) - number_of(after, 7);
  auto last = lenet_size - 1;
  CHECK(std::abs(number_of(before, last) - number_of(after, last) - lowered) <
        1e-5f);
  return {lowered, found};
}

} // namespace

TEST_CASE("a step has the weighted mean of its gradients, at its rate") {
  for (auto remote_shards : {false, true}) {
    INFO(remote_shards << " remote shards");
    // lr 0.5 halved; the mean of 1 and 4, then (3 * 1 + 4) / 4.
    auto [plain, plain_log] = step_with("1", remote_shards);
    CHECK(std::abs(plain - 0.25f * 2.5f) < 1e-5f);
    auto [weighted, log] = step_with("3", remote_shards);
    CHECK(std::abs(weighted - 0.25f * 1.75f) < 1e-5f);
    CHECK(log.rate_factor() == 0.5);
    REQUIRE(log.gradients_size() == 2);
    CHECK(log.gradients(0).weight() == 3);
    CHECK_FALSE(log.gradients(1).has_weight());
    CHECK_FALSE(plain_log.gradients(0).has_weight());
  }
}

TEST_CASE("a gradient of weight 0 is dropped, and the rest is the step") {
  for (auto remote_shards : {false, true}) {
    auto [lowered, log] = step_with("0", remote_shards);
    CHECK(std::abs(lowered - 0.25f * 4) < 1e-5f);
    CHECK(log.gradients_size() == 1);
  }
}
