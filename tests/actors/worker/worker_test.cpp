#include "actors/worker/worker.hpp"
#include "data/dataset.hpp"
#include "tests/support/doubles.hpp"
#include "tests/support/payloads.hpp"

#include <catch2/catch_test_macros.hpp>

using namespace troupe;
using namespace troupe::test;

namespace {

const registration role{worker_id{3}, life_number{2}, life_number{5}};
const lease first_lease{lease_id{11}, 0, 0, 8};
const lease second_lease{lease_id{12}, 0, 8, 8};
const lease third_lease{lease_id{13}, 0, 16, 8};

struct nowhere : gradient_stream {
  void begin(const payload&) override {
    // nop
  }

  void ready(uint64_t) override {
    // nop
  }

  void computed(double) override {
    // nop
  }
};

/// A worker with stand-ins for everybody around it.
struct desk {
  desk() {
    worker = actors.make<worker_actor, worker_state>(
      worker_parts{compute.handle, loader.handle, session.handle});
    actors.tell(worker, attach_atom_v, server.handle, role,
                gradient_way{early_gradients});
  }

  void give_weights(held_request<pull_header>& to, uint64_t number,
                    std::vector<lease> leases) {
    to.promise.deliver(release_header{version{number}, role.server, leases},
                       weights);
    actors.run();
  }

  void give_weights(held_request<push_header>& to, uint64_t number,
                    std::vector<lease> leases) {
    to.promise.deliver(release_header{version{number}, role.server, leases},
                       weights);
    actors.run();
  }

  /// The oldest computation has finished, or has stopped because its token was
  /// set.
  void finish(size_t task, const payload& statistics = {}) {
    gradient_report report;
    report.statistics = statistics;
    report.cancelled = compute->tasks[task].cancel->load();
    report.gradient = constant_payload(4, 2);
    report.samples = 8;
    report.loss = 1.5;
    report.seconds = 0.25;
    compute->promises[task].deliver(report);
    actors.run();
  }

  bool cancelled(size_t task) const {
    return compute->tasks[task].cancel->load();
  }

  actor_fixture actors;
  payload weights = constant_payload(4, 1);
  batch_ptr batch = std::make_shared<data::batch>();
  compute_stand_in compute = make_compute_stand_in(actors);
  loader_stand_in loader = make_loader_stand_in(actors, batch);
  session_client_stand_in session = make_session_client_stand_in(actors);
  server_stand_in server = make_server_stand_in(actors);
  gradient_stream_ptr early_gradients = std::make_shared<nowhere>();
  worker_actor worker;
};

} // namespace

TEST_CASE("a worker pulls first") {
  desk it;
  REQUIRE(it.server->pulls.size() == 1);
  const auto& header = it.server->pulls[0].header;
  CHECK(header.worker == role.worker);
  CHECK(header.life == role.life);
  CHECK(header.server == role.server);
  CHECK(header.abandoned == lease_id{0});
  CHECK(it.compute->tasks.empty());
}

TEST_CASE("a worker loads all of its leases and computes the first") {
  desk it;
  it.give_weights(it.server->pulls[0], 7, {first_lease, second_lease});
  REQUIRE(it.loader->leases.size() == 2);
  CHECK(it.loader->leases[0] == first_lease);
  CHECK(it.loader->leases[1] == second_lease);
  REQUIRE(it.compute->tasks.size() == 1);
  CHECK(it.compute->tasks[0].weights.host_bytes().data() ==
        it.weights.host_bytes().data());
  CHECK(it.compute->tasks[0].batch == it.batch);
  CHECK(it.compute->tasks[0].way.early == it.early_gradients);
}

TEST_CASE(
  "a worker that is to leave finishes its gradient and begins no other") {
  desk it;
  it.give_weights(it.server->pulls[0], 7, {first_lease, second_lease});
  auto left = it.actors.ask<sequence>(it.worker, leave_atom_v);
  CHECK(left->open());
  it.finish(0);
  REQUIRE(it.server->pushes.size() == 1);
  CHECK(left->open());
  it.give_weights(it.server->pushes[0], 8, {third_lease});
  CHECK(left->get<sequence>() == sequence{1});
  CHECK(it.compute->tasks.size() == 1);
  CHECK(it.server->pulls.size() == 1);
}

TEST_CASE("a worker that computes nothing may leave at once") {
  desk it;
  auto left = it.actors.ask<sequence>(it.worker, leave_atom_v);
  it.actors.run();
  CHECK(left->get<sequence>() == sequence{0});
  it.give_weights(it.server->pulls[0], 7, {first_lease});
  CHECK(it.compute->tasks.empty());
}

TEST_CASE("a worker that has lost its place has nothing to finish") {
  desk it;
  it.give_weights(it.server->pulls[0], 7, {first_lease});
  auto left = it.actors.ask<sequence>(it.worker, leave_atom_v);
  it.actors.run();
  it.actors.tell(it.worker, detach_atom_v);
  it.actors.run();
  CHECK(!left->open());
}

TEST_CASE("a push tells all about its gradient") {
  desk it;
  it.give_weights(it.server->pulls[0], 7, {first_lease, second_lease});
  it.actors.advance(0.5);
  it.finish(0);
  REQUIRE(it.server->pushes.size() == 1);
  const auto& [header, gradient, promise] = it.server->pushes[0];
  CHECK(header.id == push_id{role.worker, role.life, sequence{1}});
  CHECK(header.server == role.server);
  CHECK(header.computed_on == version{7});
  CHECK(header.from == first_lease.id);
  CHECK(header.samples == 8);
  CHECK(header.loss == 1.5);
  CHECK(header.compute_seconds == 0.25);
  CHECK(number_of(gradient, 0) == 2);
}

TEST_CASE("what compression left out is kept by whoever packs") {
  desk it;
  it.actors.tell(it.worker, write_atom_v, version{7}, sequence{4});
  using all = std::vector<std::pair<version, push_id>>;
  CHECK((it.session->kept ==
         all{{version{7}, {role.worker, role.life, sequence{4}}}}));
  it.actors.tell(it.worker, detach_atom_v);
  it.actors.tell(it.worker, write_atom_v, version{8}, sequence{4});
  CHECK(it.session->kept.size() == 1);
}

TEST_CASE("a worker has one push in flight and waits for its reply") {
  desk it;
  it.give_weights(it.server->pulls[0], 7, {first_lease, second_lease});
  it.finish(0);
  it.actors.advance(3);
  CHECK(it.compute->tasks.size() == 1);
  CHECK(it.server->pushes.size() == 1);
  it.give_weights(it.server->pushes[0], 8, {third_lease});
  REQUIRE(it.compute->tasks.size() == 2);
  it.finish(1);
  REQUIRE(it.server->pushes.size() == 2);
  CHECK(it.server->pushes[1].header.id.seq == sequence{2});
  CHECK(it.server->pushes[1].header.from == second_lease.id);
  CHECK(it.server->pushes[1].header.computed_on == version{8});
  CHECK(std::abs(it.server->pushes[1].header.wait_seconds - 3) < 0.01);
}

TEST_CASE("a worker waits for its batch, however late") {
  desk it;
  it.loader->holds = true;
  it.give_weights(it.server->pulls[0], 7, {first_lease, second_lease});
  // The second batch is no use before the first.
  it.loader->promises[1].deliver(loaded_batch{second_lease, it.batch});
  it.actors.run();
  CHECK(it.compute->tasks.empty());
  it.actors.advance(2);
  it.loader->promises[0].deliver(loaded_batch{first_lease, it.batch});
  it.actors.run();
  REQUIRE(it.compute->tasks.size() == 1);
  it.finish(0);
  CHECK(it.server->pushes.at(0).header.from == first_lease.id);
  CHECK(std::abs(it.server->pushes[0].header.data_seconds - 2) < 0.01);
}

TEST_CASE("a worker that is cancelled gives its lease up and pulls") {
  desk it;
  it.give_weights(it.server->pulls[0], 7, {first_lease, second_lease});
  SECTION("for a version after the one it reads") {
    it.actors.tell(it.worker, cancel_atom_v, version{8});
    CHECK(it.cancelled(0));
    it.finish(0);
    CHECK(it.server->pushes.empty());
    REQUIRE(it.server->pulls.size() == 2);
    CHECK(it.server->pulls[1].header.abandoned == first_lease.id);
    it.give_weights(it.server->pulls[1], 8, {third_lease});
    REQUIRE(it.compute->tasks.size() == 2);
    CHECK_FALSE(it.cancelled(1));
    it.finish(1);
    CHECK(it.server->pushes.at(0).header.from == second_lease.id);
    CHECK(it.server->pushes[0].header.id.seq == sequence{1});
  }
  SECTION("but not for the version that it reads: that news is late") {
    it.actors.tell(it.worker, cancel_atom_v, version{7});
    CHECK_FALSE(it.cancelled(0));
  }
  SECTION("too late: the push is on its way") {
    it.finish(0);
    it.actors.tell(it.worker, cancel_atom_v, version{8});
    CHECK(it.server->pushes.size() == 1);
    CHECK(it.server->pulls.size() == 1);
  }
}

TEST_CASE("a worker answers while its compute actor computes") {
  desk it;
  it.give_weights(it.server->pulls[0], 7, {first_lease});
  REQUIRE(it.compute->tasks.size() == 1);
  auto ping = it.actors.ask<uint64_t>(it.worker, ping_atom_v);
  it.actors.run();
  CHECK(ping->values);
}

TEST_CASE("a worker whose gradient is refused pulls and goes on") {
  for (auto why : {errc::not_finite, errc::wrong_size, errc::duplicate}) {
    desk it;
    it.give_weights(it.server->pulls[0], 7, {first_lease, second_lease});
    it.finish(0);
    it.server->pushes[0].promise.deliver(
      caf::make_error(why, std::string{"refused"}));
    it.actors.run();
    REQUIRE(it.server->pulls.size() == 2);
    CHECK(it.server->pulls[1].header.abandoned == lease_id{0});
    it.give_weights(it.server->pulls[1], 7, {third_lease});
    CHECK(it.compute->tasks.size() == 2);
    CHECK(it.session->asked == 0);
  }
}

TEST_CASE("a worker that keeps its own statistics goes on from them") {
  desk it;
  auto own = constant_payload(2, 5);
  auto later = constant_payload(2, 6);
  auto given = [&](size_t task) {
    return it.compute->tasks.at(task).statistics.host_bytes().data();
  };
  it.give_weights(it.server->pulls[0], 7, {first_lease, second_lease});
  CHECK(given(0) == nullptr); // Those of the weights.
  it.finish(0, own);
  it.give_weights(it.server->pushes[0], 8, {third_lease});
  CHECK(given(1) == own.host_bytes().data());
  SECTION("not from those of a gradient that is refused") {
    it.finish(1, later);
    it.server->pushes[1].promise.deliver(
      caf::make_error(errc::not_finite, std::string{"refused"}));
    it.actors.run();
    it.give_weights(it.server->pulls.at(1), 8, {first_lease});
    CHECK(given(2) == own.host_bytes().data());
  }
  SECTION("not from those of a gradient that is cancelled") {
    it.actors.tell(it.worker, cancel_atom_v, version{9});
    it.finish(1, later);
    it.give_weights(it.server->pulls.at(1), 9, {first_lease});
    CHECK(given(2) == own.host_bytes().data());
  }
  SECTION("but not in its next life") {
    it.finish(1, later);
    const registration next{worker_id{3}, life_number{3}, life_number{6}};
    it.actors.tell(it.worker, attach_atom_v, it.server.handle, next,
                   gradient_way{});
    it.give_weights(it.server->pulls.at(1), 9, {first_lease});
    CHECK(given(2) == nullptr);
  }
}

TEST_CASE("a worker that has lost its place asks for a new one") {
  for (auto why : {errc::unknown_member, errc::stale_incarnation}) {
    desk it;
    it.server->pulls[0].promise.deliver(
      caf::make_error(why, std::string{"who?"}));
    it.actors.run();
    CHECK(it.session->asked == 1);
    CHECK(it.server->pulls.size() == 1);
  }
}

TEST_CASE(
  "a worker looks for a new place when it does not understand an error") {
  auto with_text = [](errc why) {
    return caf::make_error(why, std::string{"who?"});
  };
  for (const caf::error& why :
       {with_text(errc::failed), with_text(errc::expelled),
        caf::make_error(caf::sec::request_receiver_down),
        caf::make_error(caf::sec::broken_promise)})
    for (auto to_push : {false, true}) {
      desk it;
      if (to_push) {
        it.give_weights(it.server->pulls[0], 7, {first_lease});
        it.finish(0);
        it.server->pushes[0].promise.deliver(why);
      } else {
        it.server->pulls[0].promise.deliver(why);
      }
      it.actors.run();
      CHECK(it.session->asked == 1);
      CHECK(it.server->pulls.size() == 1);
    }
}

TEST_CASE("a worker waits to be told when its link or the run is over") {
  for (auto why : {errc::peer_lost, errc::shutting_down}) {
    desk it;
    it.server->pulls[0].promise.deliver(caf::make_error(why));
    it.actors.run();
    CHECK(it.session->asked == 0);
    CHECK(it.actors.alive(it.worker));
  }
}

TEST_CASE("a worker that meets unknown errors again and again says so and "
          "leaves") {
  desk it;
  auto refuse = [&](auto& value) {
    value.promise.deliver(caf::make_error(errc::failed, std::string{"no"}));
    it.actors.run();
    if (it.session->ended.empty())
      it.actors.tell(it.worker, attach_atom_v, it.server.handle, role,
                     gradient_way{it.early_gradients});
  };
  for (size_t i = 0; i < 4; ++i)
    refuse(it.server->pulls.back());
  CHECK(it.session->asked == 4);
  SECTION("unless a gradient is taken between them") {
    it.give_weights(it.server->pulls.back(), 7, {first_lease});
    it.finish(0);
    it.give_weights(it.server->pushes.at(0), 8, {second_lease});
    it.finish(1);
    refuse(it.server->pushes.at(1));
    CHECK(it.session->asked == 5);
    CHECK(it.session->ended.empty());
    return;
  }
  SECTION("weights alone do not help") {
    it.give_weights(it.server->pulls.back(), 7, {first_lease});
    it.finish(0);
    refuse(it.server->pushes.at(0));
  }
  SECTION("nor does nothing") {
    refuse(it.server->pulls.back());
  }
  REQUIRE(it.session->ended.size() == 1);
  CHECK(it.session->ended[0].status == 1);
  CHECK(it.session->ended[0].line ==
        "the parameter server refuses all requests of this worker: no");
}

TEST_CASE("a worker ignores answers of an earlier role") {
  desk it;
  const registration next{worker_id{3}, life_number{3}, life_number{6}};
  auto other = make_server_stand_in(it.actors);
  auto attach = [&] {
    it.actors.tell(it.worker, attach_atom_v, other.handle, next,
                   gradient_way{});
  };
  SECTION("weights") {
    it.actors.tell(it.worker, detach_atom_v);
    it.give_weights(it.server->pulls[0], 7, {first_lease});
    CHECK(it.loader->leases.empty());
    CHECK(it.compute->tasks.empty());
    attach();
  }
  SECTION("a batch") {
    it.loader->holds = true;
    it.give_weights(it.server->pulls[0], 7, {first_lease});
    attach();
    it.loader->promises[0].deliver(loaded_batch{first_lease, it.batch});
    it.actors.run();
    CHECK(it.compute->tasks.empty());
    it.loader->holds = false;
  }
  SECTION("a gradient, computed meanwhile") {
    it.give_weights(it.server->pulls[0], 7, {first_lease, second_lease});
    it.actors.tell(it.worker, detach_atom_v);
    CHECK(it.cancelled(0));
    attach();
    it.give_weights(other->pulls.at(0), 9, {third_lease, first_lease});
    CHECK(it.compute->tasks.size() == 1); // The old one has not ended yet.
    it.finish(0);
    CHECK(it.server->pushes.empty());
    REQUIRE(it.compute->tasks.size() == 2);
    it.finish(1);
    REQUIRE(other->pushes.size() == 1);
    CHECK(other->pushes[0].header.from == third_lease.id);
    CHECK(other->pushes[0].header.id ==
          push_id{next.worker, next.life, sequence{1}});
    return;
  }
  SECTION("a refusal") {
    attach();
    it.server->pulls[0].promise.deliver(caf::make_error(errc::unknown_member));
    it.actors.run();
    CHECK(it.session->asked == 0);
  }
  REQUIRE(other->pulls.size() == 1);
  CHECK(other->pulls[0].header.life == next.life);
  CHECK(other->pulls[0].header.server == next.server);
  it.give_weights(other->pulls[0], 9, {third_lease});
  CHECK(it.compute->tasks.size() == 1);
}

TEST_CASE("a worker that is told to stop ends with its helpers") {
  desk it;
  it.give_weights(it.server->pulls[0], 7, {first_lease});
  it.actors.tell(it.worker, stop_atom_v, run_end{0, ""});
  CHECK_FALSE(it.actors.alive(it.worker));
  CHECK_FALSE(it.actors.alive(it.compute.handle));
  CHECK_FALSE(it.actors.alive(it.loader.handle));
  CHECK(it.cancelled(0));
  REQUIRE(it.session->ended.size() == 1);
  CHECK_FALSE(it.session->ended[0].failed());
}

TEST_CASE("a worker that cannot compute or load says why and leaves") {
  desk it;
  SECTION("load") {
    it.loader->holds = true;
    it.give_weights(it.server->pulls[0], 7, {first_lease});
    it.loader->promises[0].deliver(
      caf::make_error(errc::bad_data, std::string{"no such sample"}));
  }
  SECTION("compute") {
    it.give_weights(it.server->pulls[0], 7, {first_lease});
    it.compute->promises[0].deliver(
      caf::make_error(errc::failed, std::string{"no such sample"}));
  }
  it.actors.run();
  REQUIRE(it.session->ended.size() == 1);
  CHECK(it.session->ended[0].status == 1);
  CHECK(it.session->ended[0].line == "no such sample");
  CHECK_FALSE(it.actors.alive(it.worker));
}

TEST_CASE("a worker for a process takes what the run ends with") {
  desk it;
  std::vector<bool> handed; // Whether the last gradient is in it.
  auto taker = it.actors.stand_in<last_weights_actor>([&handed](auto*) {
    return last_weights_actor::behavior_type{
      [&handed](ended_atom, version, const payload&, bool applied) {
        handed.push_back(applied);
      },
    };
  });
  auto worker = it.actors.make<worker_actor, worker_state>(
    worker_parts{it.compute.handle,
                 it.loader.handle,
                 it.session.handle,
                 {taker, it.weights.shape()}});
  it.actors.tell(worker, attach_atom_v, it.server.handle, role,
                 gradient_way{it.early_gradients});
  it.give_weights(it.server->pulls[1], 7, {first_lease});
  it.finish(0);
  SECTION("from a run that was complete") {
    it.actors.tell(worker, stop_atom_v, run_end{});
    REQUIRE(it.session->fetches.size() == 1);
    CHECK(it.session->fetched[0] == it.weights.shape());
    CHECK(it.actors.alive(worker));
    SECTION("with its gradient") {
      it.session->fetches[0].deliver(
        version{8}, std::vector{push_id{role.worker, role.life, sequence{1}}},
        it.weights);
      it.actors.run();
      CHECK(handed == std::vector{true});
      CHECK(it.session->ended[0].line.empty());
    }
    SECTION("without it") {
      it.session->fetches[0].deliver(version{8}, std::vector<push_id>{},
                                     it.weights);
      it.actors.run();
      CHECK(handed == std::vector{false});
    }
    SECTION("or says that it did not come") {
      it.session->fetches[0].deliver(
        caf::make_error(errc::peer_lost, std::string{"the link broke"}));
      it.actors.run();
      CHECK(handed.empty());
      CHECK(it.session->ended[0].line ==
            "the run's last weights did not come: the link broke");
      CHECK_FALSE(it.session->ended[0].failed());
    }
  }
  SECTION("but not from one that failed") {
    it.actors.tell(worker, stop_atom_v, run_end{1, "no"});
    CHECK(it.session->fetches.empty());
  }
  REQUIRE(it.session->ended.size() == 1);
  CHECK_FALSE(it.actors.alive(worker));
}
