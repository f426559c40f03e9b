// What the parameter server writes to its event log.

#include "config/text/failure.hpp"
#include "tests/support/members.hpp"
#include "tests/support/scores.hpp"
#include "tests/support/server_fixture.hpp"

#include <catch2/catch_test_macros.hpp>

#include <cstdlib>
#include <limits>

using namespace troupe;
using troupe::testing::scored;
using namespace troupe::test;
using proto::LogEvent;

namespace {

/// Keeps all events in memory; from the n-th on it fails, if told to.
struct event_log_in_memory {
  std::vector<LogEvent> events;
  size_t fails_at = SIZE_MAX;

  event_sink sink() {
    return [this](LogEvent& event) {
      if (events.size() >= fails_at)
        throw run_error("cannot write tape-1.pb: No space left on device");
      events.push_back(event);
    };
  }

  std::vector<const LogEvent*> of(LogEvent::WhatCase kind) const {
    std::vector<const LogEvent*> out;
    for (const auto& event : events)
      if (event.what_case() == kind)
        out.push_back(&event);
    return out;
  }
};

} // namespace

TEST_CASE("every input is kept with its decision") {
  event_log_in_memory kept;
  server_fixture play;
  play.event_log = kept.sink();
  play.open(2);
  // The last pull completes nothing; the join released both.
  std::vector<LogEvent::WhatCase> kinds;
  for (const auto& event : kept.events)
    kinds.push_back(event.what_case());
  CHECK(kinds == std::vector{LogEvent::kStarted, LogEvent::kEnlisted,
                             LogEvent::kPulled, LogEvent::kEnlisted,
                             LogEvent::kPulled, LogEvent::kJoined});
  const auto& joined = kept.events.back();
  REQUIRE(joined.decision().releases_size() == 2);
  CHECK(joined.decision().releases(1).worker() == 1);
  CHECK(joined.decision().releases(1).leases_size() == 2);
  CHECK(joined.decision().releases(1).leases(0).first() == 10);

  play.actors.advance(2);
  play.push(w1, 1);
  play.push(w0, 1);
  auto arrived = kept.of(LogEvent::kArrived);
  REQUIRE(arrived.size() == 2);
  CHECK(std::abs(arrived[0]->time_ns() - 2'000'000'000) < 1000);
  CHECK_FALSE(arrived[0]->has_decision());
  CHECK(arrived[0]->arrived().worker() == 1);
  CHECK(arrived[0]->arrived().lease().first() == 10);
  CHECK(arrived[0]->arrived().lease().count() == 10);
  CHECK(arrived[0]->arrived().loss() == 1);
  const auto& step = arrived[1]->decision();
  REQUIRE(step.updates_size() == 1);
  CHECK(step.updates(0).makes() == 1);
  // The order of the sum is not that of arrival.
  CHECK(step.updates(0).gradients(0).worker() == 0);
  CHECK(step.updates(0).gradients(1).worker() == 1);
  CHECK(step.releases_size() == 2);
}

TEST_CASE("refusals, scores, departures and the end are kept") {
  event_log_in_memory kept;
  server_fixture play;
  play.event_log = kept.sink();
  play.settings.training.max_steps = 1;
  play.open(2);
  auto spoilt = std::numeric_limits<float>::quiet_NaN();
  play.push(w0, spoilt);
  auto arrived = kept.of(LogEvent::kArrived);
  REQUIRE(arrived.size() == 1);
  CHECK(arrived[0]->arrived().refused() == "not_finite");
  CHECK(arrived[0]->arrived().lease().count() == 10);
  CHECK_FALSE(arrived[0]->has_decision());
  play.actors.tell(play.lead, evaluators_atom_v, uint32_t{1});
  play.leave(w0);
  auto left = kept.of(LogEvent::kLeft);
  REQUIRE(left.size() == 1);
  CHECK(left[0]->left().reason() == "gone");
  play.push(w1, 1);
  CHECK(kept.events.back().decision().stop() == "reached max-steps = 1");
  CHECK(kept.events.back().decision().releases_size() == 0);
  play.actors.tell(play.lead, score_atom_v, scored(1, 0.5));
  play.actors.run();
  const auto& logged = kept.of(LogEvent::kScored).at(0)->scored();
  REQUIRE(logged.metrics_size() == 2);
  CHECK(logged.metrics(0).name() == "accuracy");
  CHECK(logged.metrics(0).value() == 0.5);
  CHECK(kept.of(LogEvent::kEvaluators).size() == 1);
  const auto& end = kept.events.back();
  REQUIRE(end.has_ended());
  CHECK(end.ended().status() == "completed");
  CHECK(end.ended().steps() == 1);
  CHECK(end.ended().weights_sha256() == play.summary().weights_sha256);
  CHECK(end.ended().state_sha256() == play.summary().state_sha256);
}

TEST_CASE(
  "an event log that cannot be written fails the run, and nobody gets an "
  "answer that it does not hold") {
  // Whatever the event is that cannot be written, the last one included.
  for (size_t fails_at = 0; fails_at < 10; ++fails_at) {
    INFO("fails at " << fails_at);
    event_log_in_memory kept;
    kept.fails_at = fails_at;
    server_fixture play;
    play.event_log = kept.sink();
    play.settings.training.max_steps = 1;
    play.settings.cluster.workers = 2;
    play.open_empty();
    for (auto who : {w0, w1}) {
      play.enlist(who, life_number{1});
      play.players[who].asks = play.pull(who);
    }
    play.actors.tell(play.lead, join_atom_v, std::vector{w0, w1});
    play.actors.run();
    auto released = play.players[w0].asks->values.has_value();
    CHECK(released == (fails_at > 5));
    if (released) {
      play.settle(w0);
      play.settle(w1);
      play.push(w0, 1);
      play.push(w1, 1);
      CHECK_FALSE(play.players[w1].asks->values.has_value());
    }
    REQUIRE(play.recorder->finished.size() == 1);
    CHECK(play.summary().status == (fails_at > 8 ? "completed" : "failed"));
    CHECK(kept.events.size() == std::min<size_t>(fails_at, 9));
  }
}
