// Each part of the parameter server by itself: who waits for what, and in which
// order things happen. No weights: versions are only counted.

#include "actors/events/event_log_writer.hpp"
#include "actors/server/checkpoint_schedule.hpp"
#include "actors/server/restore.hpp"
#include "actors/server/run_metrics.hpp"
#include "actors/server/step_pipeline.hpp"
#include "actors/server/version_feed.hpp"
#include "actors/server/worker_requests.hpp"
#include "tests/support/part_host.hpp"

#include <catch2/catch_test_macros.hpp>

#include <stdexcept>

using namespace troupe;
using namespace troupe::test;

// -- the stream of events -----------------------------------------------------

namespace {

struct event_listener final : event_subscriber {
  event_listener(std::string name, strings& heard)
    : name_(std::move(name)), heard_(heard) {
    // nop
  }

  void on_event(const event& entry) override {
    heard_.push_back(name_ + std::to_string(entry.number));
    if (fails)
      throw std::runtime_error{"full"};
  }

  bool fails = false;

private:
  std::string name_;
  strings& heard_;
};

} // namespace

TEST_CASE("events are numbered and told to all, in the order of subscription") {
  strings heard;
  event_stream stream;
  auto first = std::make_shared<event_listener>("a", heard);
  stream.subscribe(first);
  stream.subscribe(nullptr);
  stream.subscribe(std::make_shared<event_listener>("b", heard));
  event what;
  stream.emit(what);
  stream.emit(what);
  CHECK(what.number == 2);
  CHECK(heard == strings{"a1", "b1", "a2", "b2"});
  first->fails = true;
  CHECK_THROWS(stream.emit(what));
  CHECK(heard.back() == "a3");
}

TEST_CASE("the event log holds what a replay meets") {
  std::vector<proto::LogEvent> log;
  event_log_writer uut{[&](proto::LogEvent& x) { log.push_back(x); }, {}};
  auto tell = [&](input cause) {
    event at;
    at.what = std::move(cause);
    uut.on_event(at);
  };
  tell(inputs::enlisted{worker_id{1}, life_number{2}, "stream"});
  tell(inputs::saved{version{3}, "step-3"});
  tell(inputs::ending{"done"});
  tell(inputs::enlisted{worker_id{2}, life_number{1}, "stream"});
  tell(inputs::scored{});
  REQUIRE(log.size() == 2);
  CHECK(log[0].enlisted().worker() == 1);
  CHECK_FALSE(log[0].has_decision());
  CHECK(log[1].has_scored());
}

TEST_CASE("a log that cannot take an event takes none after it") {
  int asked = 0;
  event_log_writer uut{[&](proto::LogEvent&) {
                         ++asked;
                         throw std::runtime_error{"disk full"};
                       },
                       {}};
  event at;
  CHECK_THROWS(uut.on_event(at));
  CHECK_NOTHROW(uut.on_event(at));
  CHECK(asked == 1);
}

TEST_CASE("metrics count a gradient when it is decided on, not before") {
  auto parts = two_workers();
  auto scheduler = make_step_scheduler(parts);
  lead_double server;
  const auto& notes = server.notes;
  run_metrics_parts all;
  all.settings = parts.settings;
  all.scheduler = &scheduler;
  run_metrics uut{server, std::move(all)};
  auto arrive = [&](const push_id& id, errc refused) {
    event at;
    at.what = inputs::arrived{push_header_of(id), {}, refused, "NaN"};
    uut.on_event(at);
  };
  arrive(push_of(0, 1), errc::none);
  arrive(push_of(1, 1), errc::none);
  CHECK(notes.empty());
  CHECK(uut.statistics().samples_applied() == 0);
  event decided;
  decided.what = inputs::pulled{};
  decided.decided.drop.push_back({push_of(1, 1), 0});
  decided.decided.updates.push_back(step_of(1, {push_of(0, 1)}));
  decided.rates = {0.1};
  uut.on_event(decided);
  REQUIRE(notes.size() == 2);
  CHECK(std::holds_alternative<notes::dropped>(notes[0]->what));
  const auto& made = std::get<notes::update>(notes[1]->what);
  CHECK(made.lr == 0.1);
  CHECK(made.samples == 8);
  CHECK(uut.statistics().samples_applied() == 8);
  arrive(push_of(1, 2), errc::not_finite);
  CHECK(std::get<notes::refused>(notes.back()->what).reason == "NaN");
}

TEST_CASE("metrics of a step are means over the samples that have them") {
  auto parts = two_workers();
  auto scheduler = make_step_scheduler(parts);
  lead_double server;
  run_metrics_parts all;
  all.settings = parts.settings;
  all.scheduler = &scheduler;
  run_metrics uut{server, std::move(all)};
  auto arrive = [&](const push_id& id, uint64_t samples,
                    const config::metrics& metrics) {
    auto header = push_header_of(id);
    header.samples = samples;
    header.metrics = metrics;
    event at;
    at.what = inputs::arrived{header, {}, errc::none, ""};
    uut.on_event(at);
  };
  arrive(push_of(0, 1), 6, {{"f1", 0.5}, {"bleu", 8}});
  arrive(push_of(1, 1), 2, {{"f1", 0.25}});
  event decided;
  decided.what = inputs::pulled{};
  decided.decided.updates.push_back(step_of(1, {push_of(0, 1), push_of(1, 1)}));
  decided.rates = {0.1};
  uut.on_event(decided);
  CHECK((std::get<notes::update>(server.notes.back()->what).metrics ==
         config::metrics{{"f1", 0.4375}, {"bleu", 8}}));
}

// -- steps --------------------------------------------------------------------

TEST_CASE("gradients settle in the order of the decision, then versions come") {
  part_host on;
  shard_group none{on.self, 0, {}};
  auto& happened = on.server.said;
  step_pipeline_parts parts;
  parts.settings.lr = 0.5;
  parts.model = &on.model;
  parts.shards = &none;
  step_pipeline uut{on.server, parts};
  for (uint32_t who = 0; who < 3; ++who)
    uut.hold(push_header_of(push_of(who, 1)), {});
  cores::orders decided;
  decided.drop.push_back({push_of(2, 1), 0});
  decided.updates.push_back(step_of(1, {push_of(1, 1)}));
  decided.updates.push_back(step_of(2, {push_of(0, 1)}));
  decided.updates.back().rate_factor = 0.25;
  auto rates = uut.rates_of(decided.updates, 0, 1000);
  CHECK(rates == std::vector<double>{0.5, 0.125});
  uut.carry_out(decided, rates);
  // The other shards know all before the lead makes its own part of the last.
  CHECK(happened == strings{"2", "1", "0", "ordered", "makes 0 to 2", "done"});
  happened.clear();
  uut.carry_out({}, {});
  CHECK(happened == strings{"ordered", "done"});
  CHECK_FALSE(uut.is_open());
}

TEST_CASE("a shard has a while to say its norm, then there is trouble") {
  part_host on;
  std::vector<caf::error> troubles;
  shard_group uut{on.self, 1,
                  [&](const caf::error& why) { troubles.push_back(why); }, 5};
  std::vector<caf::response_promise> unanswered;
  auto silent = on.actors.system().spawn([&](caf::event_based_actor* self) {
    return caf::behavior{[&, self](norm_atom, const shard_step&) {
      unanswered.push_back(self->make_response_promise());
    }};
  });
  uut.begin({}, {caf::actor_cast<remote_shard_actor>(silent)});
  uut.squares({}, [](const models::exact_sum&) { FAIL("there is none"); });
  on.actors.advance(4.9);
  CHECK(unanswered.size() == 1);
  CHECK(troubles.empty());
  on.actors.advance(0.2 + shard_group::for_the_reason);
  REQUIRE(troubles.size() == 1);
  CHECK(troubles[0] == caf::sec::request_timeout);
  caf::anon_send_exit(silent, caf::exit_reason::kill);
  on.actors.run();
}

// -- versions for evaluators --------------------------------------------------

TEST_CASE("an evaluator waits for the next version that is due, or the last") {
  part_host on;
  shard_group none{on.self, 0, {}};
  version_feed_parts parts;
  parts.self = on.self;
  parts.model = &on.model;
  parts.shards = &none;
  parts.frequency = 2;
  version_feed uut{on.server, parts};
  on.watch = [&](const watch_request& request) {
    return uut.watch(request);
  };
  auto make = [&](uint64_t number) {
    on.server.made = version{number};
    uut.made(version{number - 1}, on.server.made, 0);
    on.actors.run();
  };
  auto first = on.asks_after(0);
  make(1);
  CHECK(first->open());
  make(2);
  REQUIRE(first->values);
  CHECK(first->get<watch_header>().weights == version{2});
  CHECK_FALSE(first->get<watch_header>().last);
  auto second = on.asks_after(2);
  make(3);
  CHECK(second->open());
  SECTION("the last is due whatever its number") {
    uut.finish();
    on.actors.run();
    REQUIRE(second->values);
    CHECK(second->get<watch_header>().weights == version{3});
    CHECK(second->get<watch_header>().last);
    CHECK(uut.last_open());
    uut.scored(version{3});
    CHECK_FALSE(uut.last_open());
  }
  SECTION("none comes when the run is over") {
    uut.close();
    on.actors.run();
    CHECK(second->code() == errc::shutting_down);
    CHECK(on.asks_after(2)->code() == errc::shutting_down);
  }
}

// -- checkpoints --------------------------------------------------------------

namespace {

struct checkpoints_of_a_run : part_host {
  checkpoints_of_a_run() : uut(server, parts(), std::nullopt) {
    server.is_idle = [this] {
      return uut.is_idle();
    };
  }

  checkpoint_schedule_parts parts() {
    checkpoint_schedule_parts out;
    out.self = self;
    out.writer = writer.handle;
    out.model = &model;
    out.shards = &none;
    out.frequency = 10;
    return out;
  }

  void make(uint64_t number) {
    server.made = version{number};
    uut.made(version{number - 1}, server.made);
    actors.run();
  }

  shard_group none{self, 0, {}};
  writer_stand_in writer = make_writer_stand_in(actors);
  strings& said = server.said;
  checkpoint_schedule uut;
};

} // namespace

TEST_CASE("while the writer is busy only the newest checkpoint waits") {
  checkpoints_of_a_run on;
  on.writer->holds = true;
  on.make(9);
  CHECK(on.writer->snapshots.empty());
  on.make(10);
  on.make(20);
  on.make(30);
  REQUIRE(on.writer->snapshots.size() == 1);
  CHECK_FALSE(on.uut.is_idle());
  SECTION("it comes next") {
    on.writer->promises.front().deliver(std::string{"step-10"});
    on.actors.run();
    REQUIRE(on.writer->snapshots.size() == 2);
    CHECK(on.writer->snapshots.back()->manifest.step() == 30);
    on.writer->promises.back().deliver(std::string{"step-30"});
    on.actors.run();
    CHECK(on.said == strings{"step-10", "busy", "step-30", "idle"});
  }
  SECTION("unless it is given up") {
    on.uut.give_up();
    on.writer->promises.front().deliver(std::string{"step-10"});
    on.actors.run();
    CHECK(on.said == strings{"step-10", "idle"});
  }
}

TEST_CASE("a version has one checkpoint, and a disk that is full is told") {
  checkpoints_of_a_run on;
  on.server.made = version{7};
  CHECK(on.uut.take_checkpoint());
  CHECK_FALSE(on.uut.take_checkpoint());
  on.actors.run();
  CHECK(on.said == strings{"step-7", "idle"});
  on.writer->fails = caf::make_error(errc::disk, std::string{"full"});
  on.make(10);
  CHECK(on.said.back() == "failed: full");
}
