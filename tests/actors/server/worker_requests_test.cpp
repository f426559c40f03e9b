// What becomes of a worker's request at the parameter server: held, answered or
// refused.

#include "actors/server/restore.hpp"
#include "actors/server/worker_requests.hpp"
#include "tests/support/part_host.hpp"

#include <catch2/catch_test_macros.hpp>

using namespace troupe;
using namespace troupe::test;

// -- requests of workers ------------------------------------------------------

namespace {

struct requests_of_workers : part_host {
  requests_of_workers()
    : scheduler(make_step_scheduler(two_workers())), uut(server, parts()) {
    pull = [this](const pull_header& header) {
      return uut.pull(header);
    };
    push = [this](const push_header& header, const payload& gradient) {
      return uut.push(header, gradient);
    };
    scheduler.enlist(worker_id{0}, life_number{1});
    uut.enlist(worker_id{0}, life_number{1}, worker.handle);
  }

  worker_requests_parts parts() {
    worker_requests_parts out;
    out.self = self;
    out.scheduler = &scheduler;
    out.model = &model;
    out.shards = &none;
    out.notes = &notes;
    return out;
  }

  shard_group none{self, 0, {}};
  cores::step_scheduler scheduler;
  recording::note_window notes{2, 1};
  worker_stand_in worker = make_worker_stand_in(actors);
  strings& decided = server.said;
  worker_requests uut;
};

} // namespace

TEST_CASE("a request is held until the policy releases its worker") {
  requests_of_workers on;
  auto asks = on.pulls(worker_id{0});
  CHECK(on.decided == strings{"pull 0"});
  CHECK(asks->open());
  on.uut.release(worker_id{0}, {version{4}, life_number{1}, {}}, {}, false);
  on.actors.run();
  REQUIRE(asks->values);
  CHECK(asks->get<release_header>().weights == version{4});
}

TEST_CASE("a request waits until a decision was carried out") {
  requests_of_workers on;
  on.server.busy = true;
  on.pulls(worker_id{0});
  on.uut.go_on();
  CHECK(on.decided.empty());
  on.server.busy = false;
  on.uut.go_on();
  CHECK(on.decided == strings{"pull 0"});
}

TEST_CASE("strangers, and messages to an earlier server, are refused") {
  requests_of_workers on;
  CHECK(on.pulls(worker_id{1})->code() == errc::unknown_member);
  CHECK(on.pulls(worker_id{0}, life_number{7})->code() ==
        errc::stale_incarnation);
  CHECK(on.decided.empty());
}

TEST_CASE("a gradient of nobody's lease is refused with the reason") {
  requests_of_workers on;
  auto asks = on.actors.ask<release_header, payload>(
    on.handle, push_atom_v, push_header_of(push_of(0, 1)), payload{});
  on.actors.run();
  CHECK(asks->code() == errc::protocol_violation);
  CHECK(on.decided == strings{"0: gradient is not of a lease of this worker"});
}

TEST_CASE("requests wait in their order while the recorder is behind") {
  requests_of_workers on;
  on.notes.send();
  on.notes.send();
  auto asks = on.pulls(worker_id{0});
  CHECK(on.decided.empty());
  on.uut.proceed();
  CHECK(on.decided == strings{"pull 0"});
  SECTION("until the run is over") {
    on.uut.close();
    on.actors.run();
    CHECK(asks->code() == errc::shutting_down);
    CHECK(on.pulls(worker_id{0})->code() == errc::shutting_down);
  }
  SECTION("or the worker has left") {
    on.uut.leave(worker_id{0});
    on.uut.answer_left("killed");
    on.actors.run();
    CHECK(asks->code() == errc::unknown_member);
  }
}
