#include "actors/evaluator/evaluator.hpp"
#include "tests/support/doubles.hpp"
#include "tests/support/payloads.hpp"
#include "tests/support/scores.hpp"

#include <catch2/catch_test_macros.hpp>

using namespace troupe;
using troupe::testing::scored;
using namespace troupe::test;

namespace {

struct critic {
  critic() {
    evaluator = actors.make<evaluator_actor, evaluator_state>(
      evaluator_parts{scorer.handle, session.handle});
    actors.tell(evaluator, attach_atom_v, server.handle);
  }

  /// The server shows a version.
  void show(uint64_t number, bool last = false, bool averaged = false) {
    server->watches.back().deliver(
      watch_header{version{number}, last, averaged}, constant_payload(2, 1));
    actors.run();
  }

  /// The scorer is done with its newest task.
  void score_newest() {
    auto what = scorer->versions.back();
    scorer->promises.back().deliver(scored(what.value, 0.5));
    actors.run();
  }

  actor_fixture actors;
  scorer_stand_in scorer = make_scorer_stand_in(actors);
  session_client_stand_in session = make_session_client_stand_in(actors);
  server_stand_in server = make_server_stand_in(actors);
  evaluator_actor evaluator;
};

} // namespace

TEST_CASE("an evaluator asks for what comes after the version it has scored") {
  critic it;
  REQUIRE(it.server->watched.size() == 1);
  CHECK(it.server->watched[0] == version{0});
  it.show(4);
  REQUIRE(it.scorer->versions.size() == 1);
  CHECK(it.scorer->versions[0] == version{4});
  // It does not ask while its scorer computes: versions pass by.
  CHECK(it.server->watched.size() == 1);
  it.score_newest();
  REQUIRE(it.server->scores.size() == 1);
  CHECK(it.server->scores[0].weights == version{4});
  REQUIRE(it.server->watched.size() == 2);
  CHECK(it.server->watched[1] == version{4});
}

TEST_CASE("after the last version an evaluator asks for no more") {
  critic it;
  it.show(9, true);
  it.score_newest();
  CHECK(it.server->scores.size() == 1);
  CHECK(it.server->watched.size() == 1);
}

TEST_CASE("an evaluator scores the average at a version, too") {
  critic it;
  it.show(4, false, true);
  it.score_newest();
  CHECK(it.server->scores.empty());
  REQUIRE(it.server->averages.size() == 1);
  CHECK(it.server->averages[0] == version{4});
  SECTION("and reports both at once") {
    it.show(4, false, true);
    REQUIRE(it.scorer->versions.size() == 2);
    it.scorer->promises.back().deliver(scored(4, 0.75));
    it.actors.run();
    REQUIRE(it.server->scores.size() == 1);
    const auto& found = it.server->scores[0];
    CHECK(found.weights == version{4});
    CHECK(found.value_of("accuracy") == 0.5);
    CHECK(found.value_of("ema/accuracy") == 0.75);
    CHECK(it.server->watched.size() == 2);
  }
  SECTION("or the weights alone, if it is not kept any more") {
    it.server->watches.back().deliver(caf::make_error(errc::unknown_member));
    it.actors.run();
    REQUIRE(it.server->scores.size() == 1);
    CHECK(it.server->scores[0].value_of("accuracy") == 0.5);
    CHECK_FALSE(it.server->scores[0].value_of("ema/accuracy"));
    CHECK(it.server->watched.size() == 2);
  }
  SECTION("but not after its link is another one") {
    it.actors.tell(it.evaluator, detach_atom_v);
    it.show(4, false, true);
    CHECK(it.scorer->versions.size() == 1);
    CHECK(it.server->scores.empty());
  }
}

TEST_CASE("an evaluator that loses its link forgets what it asked for") {
  critic it;
  SECTION("while it waits for a version") {
    it.actors.tell(it.evaluator, detach_atom_v);
    it.show(4);
    CHECK(it.scorer->versions.empty());
  }
  SECTION("while it scores") {
    it.show(4);
    it.actors.tell(it.evaluator, detach_atom_v);
    it.score_newest();
    CHECK(it.server->scores.empty());
  }
  // The new server may have rolled back: it begins anew.
  auto other = make_server_stand_in(it.actors);
  it.actors.tell(it.evaluator, attach_atom_v, other.handle);
  REQUIRE(other->watched.size() == 1);
  CHECK(other->watched[0] == version{0});
  CHECK(it.server->watched.size() == 1);
}

TEST_CASE("an evaluator answers while its scorer computes") {
  critic it;
  it.show(4);
  auto ping = it.actors.ask<>(it.evaluator, ping_atom_v);
  it.actors.run();
  CHECK(ping->values);
}

TEST_CASE("an evaluator that is told to stop ends with its scorer") {
  critic it;
  it.show(4);
  it.actors.tell(it.evaluator, stop_atom_v, run_end{0, ""});
  CHECK_FALSE(it.actors.alive(it.evaluator));
  CHECK_FALSE(it.actors.alive(it.scorer.handle));
  REQUIRE(it.session->ended.size() == 1);
  CHECK(it.session->ended[0].status == 0);
}

TEST_CASE("an evaluator that cannot score says why and ends") {
  critic it;
  it.show(4);
  it.scorer->promises.back().deliver(
    caf::make_error(errc::failed, std::string{"out of memory"}));
  it.actors.run();
  REQUIRE(it.session->ended.size() == 1);
  CHECK(it.session->ended[0].status == 1);
  CHECK(it.session->ended[0].line == "out of memory");
  CHECK_FALSE(it.actors.alive(it.evaluator));
}

TEST_CASE("an evaluator looks for a new link when it does not understand an "
          "error") {
  critic it;
  auto refuse = [&](const caf::error& why) {
    it.server->watches.back().deliver(why);
    it.actors.run();
  };
  SECTION("but waits to be told when its link or the run is over") {
    refuse(caf::make_error(errc::shutting_down));
    CHECK(it.session->asked == 0);
    return;
  }
  for (int i = 1; i < 5; ++i) {
    refuse(caf::make_error(errc::failed, std::string{"no"}));
    CHECK(it.session->asked == i);
    it.actors.tell(it.evaluator, attach_atom_v, it.server.handle);
  }
  CHECK(it.session->ended.empty());
  refuse(caf::make_error(errc::failed, std::string{"no"}));
  REQUIRE(it.session->ended.size() == 1);
  CHECK(it.session->ended[0].line ==
        "the parameter server refuses all requests of this evaluator: no");
}
