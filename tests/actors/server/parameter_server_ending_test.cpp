// Evaluators, checkpoints, and how a run ends.

#include "tests/support/members.hpp"
#include "tests/support/scores.hpp"
#include "tests/support/server_fixture.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

using namespace troupe;
using troupe::testing::scored;
using namespace troupe::test;

namespace {

watch_answer watch(server_fixture& play, version after) {
  auto out = play.actors.ask<watch_header, payload>(play.lead, watch_atom_v,
                                                    watch_request{after});
  play.actors.run();
  return out;
}

void tell_score(server_fixture& play, version of, double accuracy) {
  play.actors.tell(play.lead, score_atom_v, scored(of.value, accuracy));
}

} // namespace

// -- versions to score --------------------------------------------------------

TEST_CASE("an evaluator gets the newest version that is due") {
  server_fixture play;
  play.open(1);
  auto first = watch(play, version{0});
  CHECK(first->open());
  play.step();
  CHECK(first->open());
  play.step();
  CHECK(first->get<watch_header>().weights == version{2});
  CHECK_FALSE(first->get<watch_header>().last);
  CHECK(first->get<payload>().host_bytes().data() ==
        play.players[w0].asks->get<payload>().host_bytes().data());
  // While it computes, versions 4 and 6 become due: it skips to the newest.
  for (int i = 0; i < 5; ++i)
    play.step();
  auto second = watch(play, version{2});
  CHECK(second->get<watch_header>().weights == version{6});
  CHECK(watch(play, version{6})->open());
}

TEST_CASE("a version made again after a rollback must beat what was kept") {
  auto kept_before = [](const config::metrics& kept, double accuracy) {
    server_fixture play;
    play.best = models::best_score{2, kept};
    play.open(1);
    watch(play, version{0});
    play.step();
    play.step();
    tell_score(play, version{2}, accuracy);
    return play.writer->snapshots.empty();
  };
  CHECK(kept_before(testing::found(0.9), 0.85));
  CHECK_FALSE(kept_before(testing::found(0.9), 0.95));
  CHECK_FALSE(kept_before({{"f1", 0.99}}, 0.1)); // Another metric counts now.
}

TEST_CASE("a score is recorded at its version") {
  server_fixture play;
  play.open(1);
  for (int i = 0; i < 3; ++i)
    play.step();
  tell_score(play, version{2}, 0.75);
  REQUIRE(play.recorder->of<notes::evaluation>().size() == 1);
  CHECK(play.recorder->of<notes::evaluation>()[0].found.value_of("accuracy") ==
        0.75);
  for (const auto& what : play.recorder->notes)
    if (std::holds_alternative<notes::evaluation>(what->what))
      CHECK(what->step == 2);
}

// -- checkpoints --------------------------------------------------------------

TEST_CASE(
  "every n-th version is saved; a slow writer never holds training up") {
  server_fixture play;
  play.settings.checkpoint.checkpoint_freq = 2;
  play.writer->holds = true;
  play.open(1);
  for (int i = 0; i < 7; ++i)
    play.step();
  REQUIRE(play.writer->snapshots.size() == 1);
  CHECK(play.writer->snapshots[0]->manifest.step() == 2);
  play.writer->promises[0].deliver(std::string{"step-2"});
  play.actors.run();
  // Of 4 and 6, which came due meanwhile, the newest.
  REQUIRE(play.writer->snapshots.size() == 2);
  CHECK(play.writer->snapshots[1]->manifest.step() == 6);
  REQUIRE(play.recorder->of<notes::checkpoint>().size() == 1);
  CHECK(play.recorder->of<notes::checkpoint>()[0].name == "step-2");
}

// -- several steps at once ----------------------------------------------------

TEST_CASE("of steps that are decided on at once the last is saved and scored, "
          "with all that it counts") {
  server_fixture play;
  play.samples = 100;
  play.settings.policy.name = "twins";
  play.settings.checkpoint.checkpoint_freq = GENERATE(1, 3);
  play.settings.evaluation.eval_freq = 3;
  play.open(2);
  auto watching = watch(play, version{0});
  uint64_t saved = 0;
  for (int pair = 1; pair <= 3; ++pair) {
    play.step(0.5f);
    auto at = version{2u * static_cast<uint64_t>(pair)};
    REQUIRE(play.players[w1].reads == at);
    const auto& released = play.players[w1].asks->get<payload>();
    if (play.writer->snapshots.size() == saved)
      continue;
    const auto& what = *play.writer->snapshots.at(saved++);
    CHECK(what.manifest.step() == at.value);
    CHECK(same_bytes(what.weights, released));
    uint64_t open = 0;
    for (const auto& left : what.manifest.ledger().open_epochs(0).unsettled())
      open += left.count();
    CHECK(open == 100 - 10 * at.value);
  }
  CHECK(saved == (play.settings.checkpoint.checkpoint_freq == 1 ? 3 : 2));
  CHECK(watching->get<watch_header>().weights == version{4});
}

TEST_CASE("a limit within steps that are decided on at once is the last one") {
  server_fixture play;
  play.settings.policy.name = "twins";
  play.settings.training.max_steps = 3;
  play.open(2);
  play.step(0.5f);
  auto two = play.players[w1].asks->get<payload>();
  play.step(0.5f);
  CHECK(play.summary().status == "completed");
  CHECK(play.summary().steps == 3);
  const auto& what = *play.writer->snapshots.back();
  CHECK(what.manifest.step() == 3);
  CHECK_FALSE(same_bytes(what.weights, two));
  CHECK(play.summary().gradients_applied == 3);
}

TEST_CASE("a snapshot says which samples are in its weights") {
  server_fixture play;
  play.samples = 100;
  play.settings.checkpoint.checkpoint_freq = 3;
  play.open(2);
  for (int i = 0; i < 3; ++i)
    play.step();
  const auto& manifest = play.writer->snapshots.at(0)->manifest;
  CHECK(manifest.step() == 3);
  CHECK(manifest.ps_incarnation() == 1);
  CHECK(manifest.ledger().samples() == 100);
  CHECK(manifest.ledger().epochs_completed() == 0);
  REQUIRE(manifest.ledger().open_epochs_size() == 1);
  REQUIRE(manifest.ledger().open_epochs(0).unsettled_size() == 1);
  CHECK(manifest.ledger().open_epochs(0).unsettled(0).first() == 60);
  CHECK(manifest.ledger().open_epochs(0).unsettled(0).count() == 40);
  CHECK(manifest.policy().name() == "sync");
}

TEST_CASE("with a checkpoint workers keep what compression left out up to it") {
  server_fixture play;
  play.settings.checkpoint.checkpoint_freq = 2;
  play.settings.policy.name = "async";
  play.settings.cluster.compression = "int8";
  play.open(2);
  auto kept = [&](worker_id who) {
    return play.players.at(who).handle->kept;
  };
  using all = std::vector<std::pair<version, sequence>>;
  play.push(w0, 1);
  play.settle(w0);
  CHECK(kept(w0).empty());
  play.push(w0, 1);
  CHECK((kept(w0) == all{{version{2}, sequence{2}}}));
  CHECK((kept(w1) == all{{version{2}, sequence{0}}}));
}

TEST_CASE(
  "nothing is kept of gradients that are not compressed, or lose for good") {
  for (std::string how : {"none", "fp16"}) {
    server_fixture play;
    play.settings.checkpoint.checkpoint_freq = 1;
    play.settings.cluster.compression = how;
    play.open(1);
    play.step();
    CHECK(play.players.at(w0).handle->kept.empty());
  }
}

TEST_CASE("the end waits for what workers keep, but not for ever") {
  server_fixture play;
  play.settings.training.max_steps = 1;
  play.settings.cluster.compression = "topk";
  play.open(2);
  for (auto who : {w0, w1})
    play.players.at(who).handle->slow = true;
  play.step();
  CHECK(play.recorder->finished.empty());
  play.players.at(w0).handle->unanswered.at(0).deliver();
  play.actors.run();
  CHECK(play.recorder->finished.empty());
  play.actors.advance(11);
  CHECK(play.summary().status == "completed");
}

// -- the end ------------------------------------------------------------------

TEST_CASE("a run that reaches max-steps ends in stages") {
  server_fixture play;
  play.settings.training.max_steps = 3;
  play.open(2);
  play.step();
  play.step();
  play.writer->holds = true;
  auto first = play.push(w0, 1);
  CHECK(play.coordinator->ending == 0);
  auto second = play.push(w1, 1);
  CHECK(first->code() == errc::shutting_down);
  CHECK(second->code() == errc::shutting_down);
  CHECK(play.coordinator->ending == 1);
  CHECK(play.pull(w0)->code() == errc::shutting_down);
  REQUIRE(play.writer->snapshots.size() == 1);
  CHECK(play.writer->snapshots[0]->manifest.step() == 3);
  // The summary waits for the checkpoint.
  CHECK(play.recorder->finished.empty());
  play.writer->promises.at(0).deliver(std::string{"step-3"});
  play.actors.run();
  CHECK(play.summary().status == "completed");
  CHECK(play.summary().steps == 3);
  CHECK(play.summary().samples_applied == 60);
  CHECK(play.summary().gradients_applied == 6);
  CHECK(play.summary().transport.at("worker-1") == "inproc");
  REQUIRE(play.coordinator->ended.size() == 1);
  CHECK(play.coordinator->ended[0].status == 0);
  CHECK(play.coordinator->ended[0].line.empty());
  CHECK_FALSE(play.actors.alive(play.lead));
  CHECK_FALSE(play.actors.alive(play.writer.handle));
  CHECK_FALSE(play.actors.alive(play.recorder.handle));
}

TEST_CASE("the last version is scored before the run ends") {
  server_fixture play;
  play.settings.training.max_steps = 3;
  play.open(1);
  play.actors.tell(play.lead, evaluators_atom_v, 1u);
  auto seen = watch(play, version{0});
  for (int i = 0; i < 2; ++i)
    play.step();
  CHECK(seen->get<watch_header>().weights == version{2});
  play.push(w0, 0);
  CHECK(play.recorder->finished.empty());
  auto last = watch(play, version{2});
  CHECK(last->get<watch_header>().weights == version{3});
  CHECK(last->get<watch_header>().last);
  SECTION("an older score is not enough") {
    tell_score(play, version{2}, 0.5);
    CHECK(play.recorder->finished.empty());
    tell_score(play, version{3}, 0.75);
    REQUIRE(play.summary().final_metrics);
    CHECK(config::value_of(*play.summary().final_metrics, "accuracy") == 0.75);
  }
  SECTION("it is not waited for longer than eval-timeout") {
    play.actors.advance(play.settings.evaluation.eval_timeout + 1);
    CHECK(play.summary().status == "completed");
    CHECK_FALSE(play.summary().final_metrics);
  }
  SECTION("nor when all evaluators are gone") {
    play.actors.tell(play.lead, evaluators_atom_v, 0u);
    CHECK(play.summary().status == "completed");
  }
}

TEST_CASE("an accuracy that is reached ends the run") {
  server_fixture play;
  play.settings.training.target_accuracy = 0.9;
  play.open(1);
  play.step();
  play.step();
  tell_score(play, version{2}, 0.89);
  CHECK(play.coordinator->ending == 0);
  tell_score(play, version{2}, 0.91);
  CHECK(play.coordinator->ending == 1);
  CHECK(play.summary().status == "completed");
}

TEST_CASE("any metric may end the run") {
  server_fixture play;
  play.settings.training.target = "perplexity<=12";
  play.open(1);
  play.step();
  play.actors.tell(play.lead, score_atom_v,
                   score{version{1}, {{"perplexity", 12.5}}, 10, 0.1});
  CHECK(play.coordinator->ending == 0);
  play.actors.tell(play.lead, score_atom_v,
                   score{version{1}, {{"perplexity", 11}}, 10, 0.1});
  CHECK(play.coordinator->ending == 1);
  auto summary = play.summary();
  REQUIRE(summary.best_by);
  CHECK(to_string(*summary.best_by) == "min(perplexity)");
  CHECK(summary.best_value == 11);
}

TEST_CASE("a signal ends the run with a checkpoint and a summary") {
  server_fixture play;
  play.open(2);
  play.step();
  auto held = play.push(w0, 1);
  play.actors.tell(play.lead, stop_atom_v);
  CHECK(held->code() == errc::shutting_down);
  REQUIRE(play.writer->snapshots.size() == 1);
  CHECK(play.writer->snapshots[0]->manifest.step() == 1);
  CHECK(play.summary().status == "stopped");
  CHECK(play.coordinator->ended.at(0).status == 75);
}

TEST_CASE("a run that is told to stop ends within the grace") {
  server_fixture play;
  play.settings.cluster.grace = 20;
  play.open(1);
  play.actors.tell(play.lead, evaluators_atom_v, 1u);
  play.step();
  play.writer->holds = true;
  play.actors.tell(play.lead, stop_atom_v);
  auto early = [&] {
    return play.recorder->of<notes::early_summary>();
  };
  SECTION("with a summary as soon as the checkpoint is written") {
    CHECK(early().empty());
    play.writer->promises.at(0).deliver(std::string{"step-1"});
    play.actors.run();
    REQUIRE(early().size() == 1);
    CHECK(early()[0].summary.status == "stopped");
    CHECK(early()[0].summary.steps == 1);
    CHECK(play.recorder->finished.empty());
    SECTION("and another with the score") {
      play.writer->holds = false;
      tell_score(play, version{1}, 0.5);
      CHECK(play.summary().final_metrics);
    }
    SECTION("and without a score that takes too long") {
      play.actors.advance(13.9);
      CHECK(play.recorder->finished.empty());
      play.actors.advance(0.2);
      CHECK(play.summary().status == "stopped");
      CHECK_FALSE(play.summary().final_metrics);
      CHECK(play.coordinator->ended.at(0).status == 75);
    }
  }
  SECTION("even if the checkpoint takes too long") {
    play.actors.advance(17.1);
    CHECK(play.summary().status == "failed");
    const auto& how = play.coordinator->ended.at(0);
    CHECK(how.status == 1);
    CHECK(how.line.starts_with("the last checkpoint was not written within 20 "
                               "s (--grace): give it more time"));
  }
}

TEST_CASE("a signal shortens the wait for the score of a complete run") {
  server_fixture play;
  play.settings.training.max_steps = 1;
  play.settings.cluster.grace = 4;
  play.open(1);
  play.actors.tell(play.lead, evaluators_atom_v, 1u);
  play.push(w0, 0);
  CHECK(play.recorder->finished.empty());
  play.actors.tell(play.lead, stop_atom_v);
  play.actors.advance(2.1);
  CHECK(play.summary().status == "completed");
}

TEST_CASE(
  "a run without workers is given up with a checkpoint, and has failed") {
  server_fixture play;
  play.open(2);
  play.step();
  play.actors.tell(play.lead, ended_atom_v, run_end{1, "all have failed"});
  REQUIRE(play.writer->snapshots.size() == 1);
  CHECK(play.summary().status == "stopped");
  const auto& how = play.coordinator->ended.at(0);
  CHECK(how.status == 1);
  CHECK(how.line == "all have failed");
  CHECK(how.next.empty());
}

TEST_CASE("who leaves while the run ends changes nothing any more") {
  server_fixture play;
  play.open(2);
  play.step();
  play.push(w0, 1); // Held: the step waits for w1.
  play.writer->holds = true;
  play.actors.tell(play.lead, stop_atom_v);
  play.leave(w1);
  play.leave(w0);
  play.writer->promises.at(0).deliver(std::string{"step-1"});
  play.actors.run();
  CHECK(play.summary().steps == 1);
  CHECK(play.summary().gradients_applied == 2);
}

TEST_CASE("a checkpoint that cannot be written fails the run with its line") {
  server_fixture play;
  play.settings.checkpoint.checkpoint_freq = 2;
  play.writer->fails =
    caf::make_error(errc::disk, std::string{"model: No space left"});
  play.open(1);
  play.step();
  auto held = play.push(w0, 0);
  CHECK(play.summary().status == "failed");
  REQUIRE(play.coordinator->ended.size() == 1);
  CHECK(play.coordinator->ended[0].status == 1);
  CHECK(play.coordinator->ended[0].line == "model: No space left");
  CHECK_FALSE(play.actors.alive(play.lead));
}

TEST_CASE("a run directory that cannot be written fails the run") {
  server_fixture play;
  play.open(1);
  auto watching = watch(play, version{0});
  play.actors.tell(play.lead, refuse_atom_v, std::string{"metrics: full"});
  CHECK(play.coordinator->ended.at(0).status == 1);
  CHECK(play.coordinator->ended.at(0).line == "metrics: full");
  CHECK(watching->code() == errc::shutting_down);
  CHECK(play.writer->snapshots.empty());
}

TEST_CASE(
  "a life that ends for a lost shard names the nodes that go on, unless "
  "the run was stopped") {
  auto stopped = GENERATE(false, true);
  server_fixture play;
  play.open(2);
  play.step();
  play.writer->holds = true;
  if (stopped)
    play.actors.tell(play.lead, stop_atom_v);
  run_end lost{1, "a shard is lost"};
  lost.next = {shard_id{0}, shard_id{2}};
  play.actors.tell(play.lead, ended_atom_v, lost);
  const auto& told = play.coordinator->ended.at(0);
  CHECK(told.status == 1);
  CHECK(told.line == (stopped ? "a shard is lost"
                              : "a shard is lost; the nodes that are left, 2, "
                                "go on from the newest checkpoint"));
  CHECK(told.next.empty() == stopped);
}

namespace {

/// A server with a worker beside each of its two shards, as far as it knows.
struct two_peers : server_fixture {
  explicit two_peers(bool reshards = true) {
    settings.cluster.reshard_on_join = reshards;
    open(2);
    step();
  }

  void come(uint32_t rank) {
    enlist(worker_id{rank}, life_number{1});
    actors.tell(lead, join_atom_v, std::vector{worker_id{rank}});
  }
};

} // namespace

TEST_CASE("a node that joins peers ends their life with a checkpoint, and gets "
          "a shard in the next") {
  two_peers play;
  play.come(2);
  CHECK(play.coordinator->ended.empty()); // Another may come with it.
  play.come(3);
  auto expected = std::vector{shard_id{0}, shard_id{1}, shard_id{2}};
  SECTION("with others that come at the same time") {
    expected.push_back(shard_id{3});
  }
  SECTION("but not with those that have gone again") {
    play.leave(worker_id{3});
  }
  play.actors.advance(1);
  REQUIRE(play.coordinator->ended.size() == 1);
  const auto& told = play.coordinator->ended[0];
  CHECK((told.next == expected));
  CHECK(told.line.find("go on from a new checkpoint") != std::string::npos);
  REQUIRE(play.writer->snapshots.size() == 1);
  CHECK(play.writer->snapshots[0]->manifest.step() == 1);
}

TEST_CASE("without --reshard-on-join a joiner gets its shard after a death") {
  two_peers play{false};
  play.come(2);
  play.actors.advance(5);
  CHECK(play.coordinator->ended.empty());
  run_end lost{1, "a shard is lost"};
  lost.next = {shard_id{0}};
  play.actors.tell(play.lead, ended_atom_v, lost);
  REQUIRE(play.coordinator->ended.size() == 1);
  CHECK(
    (play.coordinator->ended[0].next == std::vector{shard_id{0}, shard_id{2}}));
}

TEST_CASE("a signal while peers deal out the weights anew ends the run") {
  two_peers play;
  play.writer->holds = true;
  play.come(2);
  play.actors.advance(1);
  CHECK(play.coordinator->ended.empty());
  play.actors.tell(play.lead, stop_atom_v);
  play.actors.advance(1000); // Saving is given up.
  REQUIRE(play.coordinator->ended.size() == 1);
  CHECK(play.coordinator->ended[0].next.empty());
}
