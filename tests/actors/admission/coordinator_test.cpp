#include "actors/admission/coordinator.hpp"
#include "actors/runtime/run_is_over.hpp"
#include "tests/support/doubles.hpp"
#include "tests/support/members.hpp"

#include <catch2/catch_test_macros.hpp>

using namespace troupe;
using namespace troupe::test;

namespace {

using registered = answer_ptr<registration>;

/// A coordinator with stand-ins for everybody around it.
struct office {
  explicit office(uint32_t workers, double join_timeout = 60,
                  const std::optional<cores::part_assignment>& assignment = {},
                  bool outlived = false, uint32_t kept = 0,
                  uint32_t most = UINT32_MAX) {
    coordinator_parts parts;
    parts.outlived = outlived;
    parts.rules = {workers, join_timeout};
    parts.rules.kept = kept;
    parts.peers = kept;
    parts.rules.most = most;
    parts.assignment = assignment;
    if (assignment)
      parts.rules.max_ranks = workers;
    parts.liveness_timeout = 8;
    parts.asks_for_stacks = true;
    parts.server = life_number{7};
    parts.lead = lead.handle;
    parts.supervisor = supervisor.handle;
    coordinator =
      actors.make<coordinator_actor, coordinator_state>(std::move(parts));
    actors.run();
  }

  registered enter(const worker_stand_in& who,
                   const registration_request& wish = {}) {
    auto out =
      actors.ask<registration>(coordinator, register_atom_v, wish, who.handle);
    actors.run();
    return out;
  }

  worker_stand_in new_worker() { return make_worker_stand_in(actors); }

  actor_fixture actors;
  lead_stand_in lead = make_lead_stand_in(actors);
  supervisor_stand_in supervisor = make_supervisor_stand_in(actors);
  coordinator_actor coordinator;
};

registration_request rank(uint32_t number) {
  return {true, worker_id{number}, "inproc", {}};
}

registration seat_of(const registered& from) {
  return from->get<registration>();
}

} // namespace

TEST_CASE("ranks are given in the order of joining") {
  office it{3};
  CHECK(it.lead->attached == 1);
  for (uint32_t i = 0; i < 3; ++i) {
    auto seat = seat_of(it.enter(it.new_worker()));
    CHECK(seat.worker == worker_id{i});
    CHECK(seat.life == life_number{1});
    CHECK(seat.server == life_number{7});
  }
}

TEST_CASE("a rank that is asked for is given when it is free") {
  office it{3};
  CHECK(seat_of(it.enter(it.new_worker(), rank(2))).worker == worker_id{2});
  auto taken = it.enter(it.new_worker(), rank(2));
  CHECK(taken->code() == errc::rank_taken);
  CHECK(text_of(*taken->error).find("rank 2") != std::string::npos);
  CHECK(seat_of(it.enter(it.new_worker())).worker == w0);
}

TEST_CASE("beyond the most workers one is refused, until one has left") {
  office it{2, 60, {}, false, 0, 2};
  auto first = it.new_worker();
  it.enter(first);
  it.enter(it.new_worker());
  auto full = it.enter(it.new_worker());
  CHECK(full->code() == errc::cluster_full);
  CHECK(text_of(*full->error).starts_with("the run has its most workers, 2"));
  CHECK(it.enter(it.new_worker(), rank(1))->code() == errc::rank_taken);
  it.actors.kill(first.handle);
  it.actors.run();
  CHECK(seat_of(it.enter(it.new_worker())).worker == w0);
}

TEST_CASE("with files of their own ranks belong to data") {
  office it{2, 60, cores::part_assignment{2, {{w1, {20, 2}}}}};
  auto with = [](uint64_t samples, uint64_t digest) {
    return registration_request{false, w0, "shm", {samples, digest}};
  };
  CHECK(seat_of(it.enter(it.new_worker(), with(20, 2))).worker == w1);
  auto first = it.new_worker();
  CHECK(seat_of(it.enter(first, with(10, 1))).worker == w0);
  CHECK(it.enter(it.new_worker(), with(10, 1))->code() == errc::rank_taken);
  it.actors.kill(first.handle);
  auto other = it.enter(it.new_worker(), with(11, 1));
  CHECK(other->code() == errc::settings_conflict);
  CHECK(text_of(*other->error) ==
        "rank 0 trains on 10 samples of its own, and this worker has 11 "
        "samples: give it the --data-dir of that rank");
  CHECK(seat_of(it.enter(it.new_worker(), with(10, 1))).life == life_number{2});
}

TEST_CASE("a worker whose link alone broke gets a new life for its old one") {
  office it{2};
  auto who = it.new_worker();
  it.enter(who, rank(1));
  it.enter(it.new_worker());
  auto again = seat_of(it.enter(who, rank(1)));
  CHECK(again.worker == w1);
  CHECK(again.life == life_number{2});
  REQUIRE(it.lead->left.size() == 1);
  CHECK(it.lead->left[0].worker == w1);
  CHECK(it.lead->left[0].life == life_number{1});
  it.actors.kill(who.handle);
  CHECK(it.lead->left.size() == 2);
}

TEST_CASE("an evaluator that comes again is counted once") {
  office it{1};
  auto who = make_evaluator_stand_in(it.actors);
  for (int i = 0; i < 2; ++i)
    it.actors.ask<life_number>(it.coordinator, register_atom_v, who.handle);
  it.actors.run();
  CHECK((it.lead->evaluators == std::vector<uint32_t>{1}));
}

TEST_CASE("the cluster enters in one go when it is complete") {
  office it{3};
  for (int i = 0; i < 2; ++i) {
    it.enter(it.new_worker());
    CHECK(it.lead->joined.empty());
  }
  it.enter(it.new_worker());
  REQUIRE(it.lead->joined.size() == 1);
  CHECK(it.lead->joined[0].size() == 3);
  // A later one enters at once.
  it.enter(it.new_worker());
  REQUIRE(it.lead->joined.size() == 2);
  CHECK((it.lead->joined[1] == std::vector{worker_id{3}}));
}

TEST_CASE(
  "the cluster enters in one go although the server is slow to enlist") {
  office it{3};
  it.lead->holds = true;
  for (int i = 0; i < 3; ++i)
    it.enter(it.new_worker());
  REQUIRE(it.lead->enlistments.size() == 3);
  for (auto& what : it.lead->enlistments) {
    CHECK(it.lead->joined.empty());
    what.promise.deliver();
    it.actors.run();
  }
  REQUIRE(it.lead->joined.size() == 1);
  CHECK(it.lead->joined[0].size() == 3);
}

TEST_CASE("one who dies before it is enlisted does not hold the others up") {
  office it{2};
  it.lead->holds = true;
  auto first = it.new_worker();
  it.enter(first);
  it.enter(it.new_worker());
  it.actors.kill(first.handle);
  it.enter(it.new_worker());
  for (auto& what : it.lead->enlistments)
    what.promise.deliver();
  it.actors.run();
  size_t entered = 0;
  for (const auto& group : it.lead->joined)
    entered += group.size();
  CHECK(entered == 2);
}

TEST_CASE("after the join timeout training starts with those that are there") {
  office it{3, 10};
  auto first = it.new_worker();
  it.enter(first);
  it.actors.advance(9);
  CHECK(it.lead->joined.empty());
  it.actors.advance(2);
  REQUIRE(it.lead->joined.size() == 1);
  CHECK((it.lead->joined[0] == std::vector{w0}));
}

TEST_CASE("without a worker, training starts when the first one comes") {
  office it{3, 10};
  it.actors.advance(11);
  CHECK(it.lead->joined.empty());
  it.enter(it.new_worker());
  CHECK(it.lead->joined.size() == 1);
}

TEST_CASE("a worker that dies leaves, and comes back in a new life") {
  office it{2};
  auto first = it.new_worker();
  it.enter(first);
  it.enter(it.new_worker());
  it.actors.kill(first.handle);
  REQUIRE(it.lead->left.size() == 1);
  CHECK(it.lead->left[0].worker == w0);
  CHECK(it.lead->left[0].life == life_number{1});
  CHECK(it.lead->left[0].reason == "connection lost");
  auto seat = seat_of(it.enter(it.new_worker(), rank(0)));
  CHECK(seat.worker == w0);
  CHECK(seat.life == life_number{2});
}

TEST_CASE("a worker that is silent leaves; one that answers stays") {
  office it{2};
  auto talker = it.new_worker();
  auto mute = it.new_worker();
  it.enter(talker);
  it.enter(mute);
  it.actors.advance(20);
  CHECK(it.lead->left.empty());
  CHECK(talker->pings >= 8);
  mute->silent = true;
  it.actors.advance(6);
  CHECK(it.lead->left.empty());
  it.actors.advance(8);
  REQUIRE(it.lead->left.size() == 1);
  CHECK(it.lead->left[0].worker == w1);
  CHECK(it.lead->left[0].reason == "silent");
}

TEST_CASE("a silence that the coordinator slept through does not count") {
  office it{2};
  auto talker = it.new_worker();
  auto mute = it.new_worker();
  it.enter(talker);
  it.enter(mute);
  it.actors.advance(5);
  mute->silent = true;
  for (int i = 0; i < 3; ++i) {
    it.actors.oversleep(30);
    CHECK(it.lead->left.empty());
  }
  it.actors.advance(14);
  REQUIRE(it.lead->left.size() == 1);
  CHECK(it.lead->left[0].worker == w1);
}

TEST_CASE("a worker that is expelled is told why") {
  office it{1};
  auto bad = it.new_worker();
  auto seat = seat_of(it.enter(bad));
  it.actors.tell(it.coordinator, leave_atom_v, seat.worker, life_number{9},
                 std::string{"another life"});
  CHECK(it.lead->left.empty());
  it.actors.tell(it.coordinator, leave_atom_v, seat.worker, seat.life,
                 std::string{"expelled"});
  REQUIRE(it.lead->left.size() == 1);
  REQUIRE(bad->stopped.size() == 1);
  CHECK(bad->stopped[0].status == 1);
  CHECK(bad->stopped[0].line.find("expelled") != std::string::npos);
}

TEST_CASE("evaluators are counted") {
  office it{1};
  auto first = make_evaluator_stand_in(it.actors);
  auto second = make_evaluator_stand_in(it.actors);
  for (const auto& who : {first, second}) {
    auto life =
      it.actors.ask<life_number>(it.coordinator, register_atom_v, who.handle);
    it.actors.run();
    CHECK(life->get<life_number>() == life_number{7});
  }
  it.actors.kill(first.handle);
  REQUIRE(it.lead->evaluators.size() == 3);
  CHECK(it.lead->evaluators[0] == 1);
  CHECK(it.lead->evaluators[1] == 2);
  CHECK(it.lead->evaluators[2] == 1);
}

TEST_CASE("at the end workers are told to stop, then evaluators, then the "
          "coordinator ends") {
  office it{1};
  auto worker = it.new_worker();
  auto evaluator = make_evaluator_stand_in(it.actors);
  it.enter(worker);
  it.actors.ask<life_number>(it.coordinator, register_atom_v, evaluator.handle);
  it.actors.run();
  it.actors.tell(it.coordinator, ending_atom_v);
  CHECK(worker->stopped.size() == 1);
  CHECK(evaluator->stopped.empty());
  CHECK(it.enter(it.new_worker())->code() == errc::shutting_down);
  it.actors.tell(it.coordinator, ended_atom_v, run_end{1, "disk full"});
  CHECK(evaluator->stopped.size() == 1);
  CHECK(it.supervisor->ended.empty());
  SECTION("when they have gone") {
    it.actors.kill(worker.handle);
    CHECK(it.supervisor->ended.empty());
    it.actors.kill(evaluator.handle);
  }
  SECTION("or after a grace") {
    it.actors.advance(3.5);
  }
  REQUIRE(it.supervisor->ended.size() == 1);
  CHECK(it.supervisor->ended[0].status == 1);
  CHECK(it.supervisor->ended[0].line == "disk full");
  CHECK_FALSE(it.actors.alive(it.coordinator));
}

TEST_CASE("nobody is told that the run is over when only a life has failed") {
  office it{2, 60, {}, true};
  auto worker = it.new_worker();
  auto evaluator = make_evaluator_stand_in(it.actors);
  it.enter(worker);
  it.actors.ask<life_number>(it.coordinator, register_atom_v, evaluator.handle);
  it.lead->holds = true;
  auto late = it.enter(it.new_worker());
  it.lead->enlistments.back().promise.deliver(life_is_over());
  it.actors.run();
  CHECK(late->code() == errc::peer_lost); // It tries again.
  it.actors.tell(it.coordinator, ended_atom_v, run_end{1, "disk full"});
  CHECK(worker->stopped.empty());
  CHECK(evaluator->stopped.empty());
  REQUIRE(it.supervisor->ended.size() == 1);
  CHECK(it.supervisor->ended[0].line == "disk full");
  CHECK_FALSE(it.actors.alive(it.coordinator));
}

TEST_CASE(
  "a run whose workers have all failed ends if no other comes in time") {
  office it{2, 10, {}, true};
  auto one = seat_of(it.enter(it.new_worker()));
  auto other = it.new_worker();
  auto seat = seat_of(it.enter(other));
  auto fails = [&](const registration& who) {
    it.actors.tell(it.coordinator, leave_atom_v, who.worker, who.life,
                   std::string{"it failed: no memory"});
  };
  fails(one);
  auto waits_on = [&] {
    it.actors.advance(100);
    return it.lead->ended.empty();
  };
  SECTION("but not if one has left in another way") {
    it.actors.kill(other.handle);
    CHECK(waits_on());
    return;
  }
  SECTION("but not if one pauses") {
    it.actors.tell(it.coordinator, detach_atom_v, other.handle);
    CHECK(waits_on());
    return;
  }
  fails(seat);
  SECTION("but not if one does") {
    it.actors.advance(8);
    auto third = it.new_worker();
    it.enter(third);
    CHECK(waits_on());
    return;
  }
  it.actors.advance(9);
  CHECK(it.lead->ended.empty());
  it.actors.advance(2);
  REQUIRE(it.lead->ended.size() == 1);
  CHECK(it.lead->ended[0].status == 1);
  CHECK(it.lead->ended[0].next.empty());
  CHECK(it.lead->ended[0].line ==
        "all workers have failed (the last: worker 1, it failed: no memory), "
        "and none has come for 10 s: the run cannot go on; start it again "
        "with --resume auto when the cause is removed");
}

TEST_CASE("peers end at once when all their workers have ended") {
  office it{2, 60, {}, false, 2};
  auto one = it.new_worker();
  auto seat = seat_of(it.enter(one, rank(0)));
  it.actors.tell(it.coordinator, leave_atom_v, seat.worker, seat.life,
                 std::string{"it failed"});
  CHECK(it.lead->ended.empty()); // The other has not come yet.
  auto other = it.new_worker();
  it.enter(other, rank(1));
  SECTION("also if the last one has left its loop before") {
    it.actors.tell(it.coordinator, detach_atom_v, other.handle);
    CHECK(it.lead->ended.empty());
  }
  SECTION("as in its loop") {
    // nop
  }
  caf::anon_send_exit(other.handle, caf::exit_reason::user_shutdown);
  it.actors.run();
  CHECK(it.lead->ended.size() == 1);
}

TEST_CASE("a worker that awaits the last score is told of the end with it") {
  office it{2};
  auto plain = it.new_worker();
  auto waits = it.new_worker();
  it.enter(plain);
  registration_request wish;
  wish.awaits_score = true;
  it.enter(waits, wish);
  it.actors.tell(it.coordinator, ending_atom_v);
  CHECK(plain->stopped.size() == 1);
  CHECK(waits->stopped.empty());
  it.actors.kill(plain.handle);
  it.actors.tell(it.coordinator, ended_atom_v, run_end{1, "disk full", 0.75});
  CHECK(plain->stopped.size() == 1);
  REQUIRE(waits->stopped.size() == 1);
  CHECK(waits->stopped[0].accuracy == 0.75);
  CHECK_FALSE(waits->stopped[0].failed()); // That is the server's.
  CHECK(it.supervisor->ended.empty());
  it.actors.kill(waits.handle);
  CHECK(it.supervisor->ended.size() == 1);
}

TEST_CASE("what the run ends with waits for who asks, and with them") {
  office it{1};
  auto who = it.new_worker();
  registration_request wish;
  wish.takes_last = true;
  it.enter(who, wish);
  CHECK(it.lead->fetches == 1);
  auto ask = [&it] {
    auto out = it.actors.ask<version, std::vector<push_id>, payload>(
      it.coordinator, fetch_atom_v);
    it.actors.run();
    return out;
  };
  auto early = ask();
  it.actors.tell(it.coordinator, ending_atom_v);
  SECTION("until it is known") {
    CHECK(early->open());
    std::vector<push_id> applied{{w0, life_number{1}, sequence{4}}};
    it.actors.tell(it.coordinator, ended_atom_v, version{8}, applied,
                   payload{});
    CHECK(std::get<version>(*early->values) == version{8});
    it.actors.tell(it.coordinator, ended_atom_v, run_end{});
    auto late = ask();
    CHECK((std::get<std::vector<push_id>>(*late->values) == applied));
    for (int piece = 0; piece < 5; ++piece) {
      it.actors.tell(it.coordinator, credit_atom_v);
      it.actors.advance(2);
      CHECK(it.actors.alive(it.coordinator));
    }
    it.actors.advance(1.5);
  }
  SECTION("or until the run has ended without") {
    it.actors.tell(it.coordinator, ended_atom_v, run_end{1, "disk full"});
    CHECK(early->code() == errc::shutting_down);
    CHECK(ask()->code() == errc::shutting_down);
    it.actors.advance(3.5);
  }
  CHECK_FALSE(it.actors.alive(it.coordinator));
}

TEST_CASE("a worker that does not compute for now has no place") {
  office it{2};
  auto who = it.new_worker();
  it.enter(who);
  it.enter(it.new_worker());
  it.actors.tell(it.coordinator, detach_atom_v, who.handle);
  REQUIRE(it.lead->left.size() == 1);
  CHECK(it.lead->left[0].worker == w0);
  SECTION("until it registers again") {
    auto again = seat_of(it.enter(who));
    CHECK(again.worker == w0);
    CHECK(again.life == life_number{2});
    it.actors.tell(it.coordinator, ending_atom_v);
    CHECK(who->stopped.size() == 1);
  }
  SECTION("and is told of the end all the same") {
    it.actors.tell(it.coordinator, ending_atom_v);
    CHECK(who->stopped.size() == 1);
  }
  SECTION("and may end") {
    it.actors.kill(who.handle);
    CHECK(it.lead->left.size() == 1);
  }
}

TEST_CASE("a worker that hangs says first what its program is doing") {
  office it{2};
  auto who = it.new_worker();
  who->stacks = "Thread 1\n  File x";
  auto seat = seat_of(it.enter(who));
  it.actors.tell(it.coordinator, detach_atom_v, seat.worker, seat.life,
                 std::string{"hangs: no gradient for 7 s"});
  it.actors.run();
  REQUIRE(it.lead->left.size() == 1);
  CHECK(it.lead->left[0].reason ==
        "hangs: no gradient for 7 s\nThread 1\n  File x");
}

TEST_CASE("a worker that hangs and says nothing loses its place, too") {
  office it{2};
  auto who = it.new_worker();
  auto seat = seat_of(it.enter(who));
  auto hangs = [&](life_number life) {
    it.actors.tell(it.coordinator, detach_atom_v, seat.worker, life,
                   std::string{"hangs"});
    it.actors.run();
  };
  hangs(life_number{9}); // Somebody else's.
  CHECK(it.lead->left.empty());
  hangs(seat.life);
  REQUIRE(it.lead->left.size() == 1);
  CHECK(it.lead->left[0].reason == "hangs");
}

TEST_CASE("a worker that fails after it has left its loop has failed") {
  office it{2};
  auto who = it.new_worker();
  auto seat = seat_of(it.enter(who));
  auto fails = [&] {
    it.actors.tell(it.coordinator, leave_atom_v, seat.worker, seat.life,
                   std::string{"it failed: boom"});
    it.actors.run();
  };
  it.actors.tell(it.coordinator, detach_atom_v, who.handle);
  it.actors.run();
  REQUIRE(it.lead->left.size() == 1);
  fails();
  REQUIRE(it.lead->left.size() == 2);
  CHECK(it.lead->left[1].reason == "it failed: boom");
  fails(); // Once.
  CHECK(it.lead->left.size() == 2);
}
