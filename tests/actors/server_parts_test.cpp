// Each part of the parameter server by itself: who waits for what, and in which
// order things happen. No weights: versions are only counted.

#include "actors/server/checkpoint_schedule.hpp"
#include "actors/server/event_log_writer.hpp"
#include "actors/server/gathered_sums.hpp"
#include "actors/server/restore.hpp"
#include "actors/server/run_metrics.hpp"
#include "actors/server/step_pipeline.hpp"
#include "actors/server/version_feed.hpp"
#include "actors/server/worker_requests.hpp"
#include "tests/support/doubles.hpp"

#include <catch2/catch_test_macros.hpp>

#include <stdexcept>

using namespace troupe;
using namespace troupe::test;

namespace {

using strings = std::vector<std::string>;
using weights_answer = answer_ptr<release_header, payload>;
using watch_answer = answer_ptr<watch_header, payload>;

/// The actor that a part lives in, and what most parts need.
struct part_host {
  part_host() {
    handle = actors.stand_in<lead_actor>([this](lead_actor::pointer me) {
      self = me;
      return behavior();
    });
    actors.run();
  }

  lead_actor::behavior_type behavior() {
    return {
      [this](push_atom, const push_header& header, const payload& gradient) {
        return push(header, gradient);
      },
      [this](pull_atom, const pull_header& header) { return pull(header); },
      [this](watch_atom, version after) { return watch(after); },
      [](score_atom, const score&) {},
      [](coordinator_atom, const coordinator_actor&) {},
      [](shards_atom, const shard_registrar_actor&,
         const std::vector<remote_shard_actor>&) {},
      [](report_atom, const part_report&) {},
      [](enlist_atom, worker_id, incarnation, const std::string&,
         const owned_data&, const worker_actor&) {},
      [](join_atom, const std::vector<worker_id>&) {},
      [](leave_atom, worker_id, incarnation, const std::string&) {},
      [](evaluators_atom, uint32_t) {},
      [](refuse_atom, const std::string&) {},
      [](tick_atom) {},
      [](stop_atom) {},
    };
  }

  watch_answer asks_after(uint64_t seen) {
    auto out =
      actors.ask<watch_header, payload>(handle, watch_atom_v, version{seen});
    actors.run();
    return out;
  }

  weights_answer pulls(worker_id who, incarnation server = incarnation{1}) {
    auto out = actors.ask<release_header, payload>(
      handle, pull_atom_v,
      pull_header{who, incarnation{1}, server, lease_id{0}});
    actors.run();
    return out;
  }

  actor_fixture actors;
  lead_actor::pointer self = nullptr;
  lead_actor handle;
  server_model model;
  std::function<worker_requests::weights_result(const push_header&,
                                                const payload&)>
    push;
  std::function<worker_requests::weights_result(const pull_header&)> pull;
  std::function<version_feed::watch_result(version)> watch;
};

push_id push_of(uint32_t worker, uint64_t number) {
  return {worker_id{worker}, incarnation{1}, sequence{number}};
}

push_header push_header_of(const push_id& id, uint64_t samples = 8) {
  push_header out;
  out.id = id;
  out.samples = samples;
  out.server = incarnation{1};
  return out;
}

/// A step that is made of these.
cores::update_order step_of(uint64_t makes, const std::vector<push_id>& of) {
  cores::update_order out;
  out.makes = version{makes};
  for (const auto& id : of)
    out.gradients.push_back({id, 0, 1});
  return out;
}

/// Two workers, asynchronous, over 1,000 samples.
parameter_server_parts two_workers() {
  parameter_server_parts out;
  out.settings.policy.name = "async";
  out.settings.cluster.workers = 2;
  out.settings.training.batch_size = 8;
  out.samples = 1000;
  return out;
}

} // namespace

// -- the stream of events -----------------------------------------------------

namespace {

struct event_listener final : event_subscriber {
  event_listener(std::string name, strings& heard)
    : name_(std::move(name)), heard_(heard) {
    // nop
  }

  void on_event(const event& what) override {
    heard_.push_back(name_ + std::to_string(what.number));
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
  auto tell = [&](input what) {
    event at;
    at.what = std::move(what);
    uut.on_event(at);
  };
  tell(inputs::enlisted{worker_id{1}, incarnation{2}, "stream"});
  tell(inputs::saved{version{3}, "step-3"});
  tell(inputs::ending{"done"});
  tell(inputs::enlisted{worker_id{2}, incarnation{1}, "stream"});
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
  std::vector<note_ptr> notes;
  run_metrics_parts all;
  all.settings = parts.settings;
  all.scheduler = &scheduler;
  all.elapsed = [] {
    return 1.0;
  };
  all.tell = [&](const note_ptr& what) {
    notes.push_back(what);
  };
  run_metrics uut{std::move(all)};
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

// -- steps --------------------------------------------------------------------

TEST_CASE("gradients settle in the order of the decision, then versions come") {
  part_host on;
  shard_group none{on.self, 0, {}};
  strings happened;
  step_pipeline_parts parts;
  parts.settings.lr = 0.5;
  parts.model = &on.model;
  parts.shards = &none;
  parts.settled = [&](const push_id& id) {
    happened.push_back(to_string(id.worker));
  };
  parts.made = [&](version what) {
    happened.push_back("makes " + to_string(what));
  };
  step_pipeline uut{parts};
  for (uint32_t who = 0; who < 3; ++who)
    uut.hold(push_header_of(push_of(who, 1)), {});
  cores::orders decided;
  decided.drop.push_back({push_of(2, 1), 0});
  decided.updates.push_back(step_of(1, {push_of(1, 1)}));
  decided.updates.push_back(step_of(2, {push_of(0, 1)}));
  decided.updates.back().rate_factor = 0.25;
  auto rates = uut.rates_of(decided.updates, 0, 1000);
  CHECK(rates == std::vector<double>{0.5, 0.125});
  uut.carry_out(decided, rates, [&] { happened.push_back("then"); });
  CHECK(happened == strings{"2", "1", "makes 1", "0", "makes 2", "then"});
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
  version newest;
  version_feed_parts parts;
  parts.self = on.self;
  parts.model = &on.model;
  parts.shards = &none;
  parts.newest = [&] {
    return newest;
  };
  parts.frequency = 2;
  version_feed uut{parts};
  on.watch = [&](version after) {
    return uut.watch(after);
  };
  auto make = [&](uint64_t what) {
    newest = version{what};
    uut.made(newest, 0);
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
  checkpoints_of_a_run() : uut(parts(), std::nullopt) {}

  checkpoint_schedule_parts parts() {
    checkpoint_schedule_parts out;
    out.self = self;
    out.writer = writer.handle;
    out.model = &model;
    out.shards = &none;
    out.frequency = 10;
    out.newest = [this] {
      return newest;
    };
    out.describe = [this](proto::Manifest& manifest) {
      manifest.set_step(newest.value);
    };
    out.staying = [] {
      return std::vector<uint64_t>{};
    };
    out.each_member = [](const auto&) {
    };
    out.fetched = [](version, const at::Tensor&) {
    };
    out.collected = [](const snapshot&) {
    };
    out.saved = [this](version, const std::string& name) {
      said.push_back(name);
    };
    out.best_saved = [](const score&) {
    };
    out.failed = [this](const std::string& line) {
      said.push_back("failed: " + line);
    };
    out.idle = [this] {
      said.emplace_back(uut.is_idle() ? "idle" : "busy");
    };
    return out;
  }

  void make(uint64_t what) {
    newest = version{what};
    uut.made(newest);
    actors.run();
  }

  shard_group none{self, 0, {}};
  writer_stand_in writer = make_writer_stand_in(actors);
  version newest;
  strings said;
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
  on.newest = version{7};
  CHECK(on.uut.take());
  CHECK_FALSE(on.uut.take());
  on.actors.run();
  CHECK(on.said == strings{"step-7", "idle"});
  on.writer->fails = caf::make_error(errc::disk, std::string{"full"});
  on.make(10);
  CHECK(on.said.back() == "failed: full");
}

// -- requests of workers ------------------------------------------------------

namespace {

struct requests_of_workers : part_host {
  requests_of_workers()
    : scheduler(make_step_scheduler(two_workers())), uut(parts()) {
    pull = [this](const pull_header& header) {
      return uut.pull(header);
    };
    push = [this](const push_header& header, const payload& gradient) {
      return uut.push(header, gradient);
    };
    scheduler.enlist(worker_id{0}, incarnation{1});
    uut.enlist(worker_id{0}, incarnation{1}, worker.handle);
  }

  worker_requests_parts parts() {
    worker_requests_parts out;
    out.self = self;
    out.scheduler = &scheduler;
    out.model = &model;
    out.shards = &none;
    out.notes = &notes;
    out.is_open = [this] {
      return is_open;
    };
    out.decide.push = [this](const push_header& header, const payload&) {
      decided.push_back("push " + to_string(header.id.worker));
    };
    out.decide.pull = [this](const pull_header& header) {
      decided.push_back("pull " + to_string(header.worker));
    };
    out.decide.refuse = [this](const push_header& header, errc,
                               const std::string& reason) {
      decided.push_back(to_string(header.id.worker) + ": " + reason);
    };
    return out;
  }

  shard_group none{self, 0, {}};
  cores::step_scheduler scheduler;
  cores::note_window notes{2, 1};
  worker_stand_in worker = make_worker_stand_in(actors);
  strings decided;
  bool is_open = false;
  worker_requests uut;
};

} // namespace

TEST_CASE("a request is held until the policy releases its worker") {
  requests_of_workers on;
  auto asks = on.pulls(worker_id{0});
  CHECK(on.decided == strings{"pull 0"});
  CHECK(asks->open());
  on.uut.release(worker_id{0}, {version{4}, incarnation{1}, {}}, {});
  on.actors.run();
  REQUIRE(asks->values);
  CHECK(asks->get<release_header>().weights == version{4});
}

TEST_CASE("a request waits until a decision was carried out") {
  requests_of_workers on;
  on.is_open = true;
  on.pulls(worker_id{0});
  on.uut.go_on();
  CHECK(on.decided.empty());
  on.is_open = false;
  on.uut.go_on();
  CHECK(on.decided == strings{"pull 0"});
}

TEST_CASE("strangers, and messages to an earlier server, are refused") {
  requests_of_workers on;
  CHECK(on.pulls(worker_id{1})->code() == errc::unknown_member);
  CHECK(on.pulls(worker_id{0}, incarnation{7})->code() ==
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

// -- sums ---------------------------------------------------------------------

namespace {

struct two_in_a_sum final : gradient_sums {
  std::optional<gradient_sum> find(const push_id& which,
                                   const payload&) override {
    gradient_sum out{1, false, {push_of(0, 1), push_of(1, 1)}};
    return which.seq == sequence{1} ? std::optional{out} : std::nullopt;
  }

  void take(uint64_t) override { said.emplace_back("take"); }

  void give_up(uint64_t) override { said.emplace_back("give up"); }

  void left(worker_id, incarnation) override { said.emplace_back("left"); }

  strings said;
};

} // namespace

TEST_CASE("a sum counts when all of its pushes are there, or not at all") {
  auto sums = std::make_shared<two_in_a_sum>();
  strings taken;
  gathered_sums_calls calls;
  bool good = true;
  calls.knows = [](const push_id&) {
    return true;
  };
  calls.is_good = [&](const new_push&) {
    return good;
  };
  calls.when_ready = [](const std::function<void()>& what) {
    what();
  };
  calls.take = [&](const new_push& one) {
    taken.push_back(to_string(one.header.id.worker));
  };
  gathered_sums uut{sums, calls};
  auto accept = [&](uint32_t who) {
    new_push one{push_header_of(push_of(who, 1)), {}, {}};
    uut.accept(*uut.find(one.header.id, {}), one);
  };
  CHECK_FALSE(uut.find(push_of(0, 2), {}));
  accept(0);
  CHECK(taken.empty());
  SECTION("both") {
    accept(1);
    CHECK(taken == strings{"0", "1"});
    CHECK(sums->said == strings{"take"});
  }
  SECTION("one of them is not good") {
    good = false;
    accept(1);
    CHECK(taken.empty());
    CHECK(sums->said == strings{"give up"});
  }
  SECTION("one of them has left") {
    uut.leave(worker_id{1}, incarnation{1});
    CHECK(taken.empty());
    CHECK(sums->said == strings{"left", "give up"});
  }
}
