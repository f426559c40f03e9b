// The recorder, or the disk, does not respond: no queue grows, nothing is lost,
// and the run ends normally.

#include "tests/support/members.hpp"
#include "tests/support/server_fixture.hpp"

#include <catch2/catch_test_macros.hpp>

using namespace troupe;
using namespace troupe::test;

namespace {

/// Takes each answer and pushes the next, until one does not come.
void push_on(server_fixture& play, worker_id who, int times) {
  for (int i = 0; i < times; ++i) {
    auto& one = play.players.at(who);
    if (one.asks->open())
      return;
    play.settle(who);
    play.push(who, 0);
  }
}

/// An asynchronous cluster, whose recorder may be so many notes behind.
void open_stalled(server_fixture& play, uint64_t most, uint64_t batch) {
  play.notes = recording::note_window{most, batch};
  play.settings.policy.name = "async";
  play.settings.checkpoint.checkpoint_freq = 1000000;
  play.open(2);
  for (auto& [who, one] : play.players)
    play.push(who, 0);
}

} // namespace

TEST_CASE("mailboxes do not grow when the recorder stalls") {
  server_fixture play;
  open_stalled(play, 64, 16);
  push_on(play, w0, 100);
  auto before = play.recorder->notes.size();
  CHECK(before > 100);
  play.recorder->holds = true;
  for (auto& [who, one] : play.players)
    push_on(play, who, 1000);
  auto behind = play.recorder->notes.size();
  CHECK(behind - before >= 64 - 16);
  // Each worker's push that was under way may cause a few more.
  CHECK(behind - before <= 64 + 8);
  for (auto& [who, one] : play.players)
    CHECK(one.asks->open());

  SECTION("and it goes on where it was when the recorder does") {
    play.recorder->holds = false;
    play.recorder->acknowledge();
    play.actors.run();
    for (auto& [who, one] : play.players) {
      REQUIRE(one.asks->values);
      play.settle(who);
    }
    play.push(w0, 0);
    push_on(play, w0, 100);
    auto updates = play.recorder->of<notes::update>();
    CHECK(updates.size() > before + 64);
    // None is missing, and their order is that of the steps.
    uint64_t last = 0;
    for (const auto& one : play.recorder->notes)
      if (std::holds_alternative<notes::update>(one->what))
        CHECK(one->step == ++last);
  }
  SECTION("who leaves meanwhile is refused, and its lease returns") {
    auto waits = play.players.at(w0).asks;
    play.leave(w0);
    play.recorder->holds = false;
    play.recorder->acknowledge();
    play.actors.run();
    CHECK(waits->code() == errc::unknown_member);
  }
  SECTION("a run that is stopped answers all who wait") {
    play.actors.tell(play.lead, stop_atom_v);
    for (auto& [who, one] : play.players)
      CHECK(one.asks->code() == errc::shutting_down);
  }
}

TEST_CASE("a run whose recorder never comes back ends as failed, in time") {
  server_fixture play;
  play.open(1);
  play.recorder->holds = true;
  play.actors.tell(play.lead, stop_atom_v);
  REQUIRE(play.recorder->finished.size() == 1);
  play.actors.advance(23);
  CHECK(play.coordinator->ended.empty());
  play.actors.advance(2);
  REQUIRE(play.coordinator->ended.size() == 1);
  const auto& how = play.coordinator->ended[0];
  CHECK(how.status == 1);
  CHECK(how.line.find("the run directory took no lines for 24 s") !=
        std::string::npos);
  CHECK_FALSE(play.actors.alive(play.lead));
}

TEST_CASE("a run whose last checkpoint is never written ends as failed") {
  server_fixture play;
  play.open(1);
  play.writer->holds = true;
  play.step();
  play.actors.tell(play.lead, stop_atom_v);
  play.actors.advance(21.9);
  CHECK(play.recorder->finished.empty());
  play.actors.advance(0.2);
  REQUIRE(play.coordinator->ended.size() == 1);
  const auto& how = play.coordinator->ended[0];
  CHECK(how.status == 1);
  CHECK(how.line.find("the last checkpoint was not written") !=
        std::string::npos);
  CHECK(play.summary().status == "failed");
}
