// The policy of a run changes while it goes on.

#include "tests/support/members.hpp"
#include "tests/support/server_fixture.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

using namespace troupe;
using namespace troupe::test;
using Catch::Matchers::ContainsSubstring;

namespace {

using change_answer = answer_ptr<version>;

change_answer change(server_fixture& play, const std::string& policy) {
  auto out = play.actors.ask<version>(play.lead, policy_atom_v, policy);
  play.actors.run();
  return out;
}

void check_refused(const change_answer& by, errc why, const std::string& line) {
  REQUIRE(by->error);
  CHECK(by->code() == why);
  CHECK_THAT(text_of(*by->error), ContainsSubstring(line));
}

} // namespace

TEST_CASE("a change makes a step of what is held, and is durable when it is "
          "answered") {
  server_fixture play;
  play.settings.training.momentum = config::training_settings{}.momentum;
  play.writer->holds = true;
  play.open(3);
  auto first = play.push(w0, 1);
  auto second = play.push(w1, 2);
  auto asks = change(play, "async");
  CHECK(first->get<release_header>().weights == version{1});
  CHECK(second->get<release_header>().weights == version{1});
  CHECK(asks->open());
  REQUIRE(play.writer->snapshots.size() == 1);
  const auto& written = *play.writer->snapshots.front();
  REQUIRE(written.settings);
  CHECK_THAT(*written.settings, ContainsSubstring("policy.name was sync"));
  CHECK(written.manifest.policy().name() == "async");
  play.writer->promises.front().deliver(std::string{"config.ini"});
  play.actors.run();
  CHECK(asks->get<version>() == version{1});
  // Who computed meanwhile has lost nothing.
  CHECK(play.push(w2, 3)->get<release_header>().weights == version{2});
  REQUIRE(play.recorder->of<notes::policy_changed>().size() == 1);
  // 0.9 is what sync has when none is given.
  CHECK(play.recorder->of<notes::policy_changed>().front().momentum ==
        config::asynchronous_momentum(3));
}

TEST_CASE("while a checkpoint is written, nobody knows which is the newest") {
  server_fixture play;
  play.settings.checkpoint.checkpoint_freq = 1;
  play.writer->holds = true;
  play.open(1);
  play.step();
  check_refused(change(play, "async"), errc::failed,
                "policy async: a checkpoint is being written");
  play.writer->promises.front().deliver(std::string{"step-1"});
  play.actors.run();
  change(play, "async");
  REQUIRE(play.writer->snapshots.size() == 2);
  CHECK(play.writer->snapshots.back()->settings);
}

TEST_CASE("a policy that the run cannot have changes nothing") {
  server_fixture play;
  play.open(2);
  check_refused(change(play, "sometimes"), errc::settings_conflict,
                "policy sometimes: ");
  check_refused(change(play, "quorum(quorum=3)"), errc::settings_conflict,
                "must be at most the number of workers, 2");
  CHECK(play.writer->snapshots.empty());
  auto first = play.push(w0, 1);
  CHECK(first->open()); // It is sync still.
}
