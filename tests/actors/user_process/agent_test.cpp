// The agent, with a process that does and says what a test wants.

#include "actors/runtime/tensor_payload.hpp"
#include "actors/user_process/agent.hpp"
#include "tests/support/doubles.hpp"
#include "tests/support/payloads.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <sys/socket.h>

#include <map>

using namespace troupe;
using namespace troupe::external;
using namespace troupe::test;

namespace {

using kind = process_frame_kind;

constexpr uint64_t samples = 100;
const lease first_lease{lease_id{11}, 2, 0, 8};
const lease second_lease{lease_id{12}, 2, 8, 8};
const lease third_lease{lease_id{13}, 2, 16, 8};

body_reader read(const process_frame& message) {
  return body_reader{std::as_bytes(std::span{message.body})};
}

/// An agent, and the other end of its line.
struct site {
  explicit site(uint32_t local_steps = 0) {
    int ends[2];
    REQUIRE(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
    auto line = std::make_shared<process_line>(transport::descriptor{ends[0]});
    process = std::make_shared<process_line>(transport::descriptor{ends[1]});
    config::settings settings;
    settings.training.compute_timeout = 5;
    settings.training.local_steps = local_steps;
    layout = models::flat_layout::from({{"a", {2, 3}}, {"b", {4}}},
                                       config::scalar_type::float32);
    agent = actors.make<agent_actor, agent_state>(agent_parts{
      {settings, layout, {}, {memory, {}}, line, session.handle}, order});
    actors.run();
  }

  process_frame next() {
    auto frame = process->receive();
    REQUIRE(frame.has_value());
    return *frame;
  }

  void expect(kind type, lease_id number) {
    auto frame = next();
    CHECK(frame.kind == type);
    CHECK(frame.number == number.value);
  }

  void load(const lease& work) {
    auto loaded = actors.ask<loaded_batch>(agent, load_atom_v, work);
    actors.run();
    CHECK(loaded->get<loaded_batch>().from.id == work.id);
  }

  answer_ptr<gradient_report> compute(const lease& work) {
    compute_task task;
    task.from = work;
    task.weights = random_payload(layout.count(), work.id.value);
    task.cancel = cancel;
    task.computed_on = version{7};
    task.last_was_dropped = last_was_dropped;
    task.progress = progress;
    task.steps = steps_by_server;
    auto out = actors.ask<gradient_report>(agent, compute_atom_v, task);
    actors.run();
    return out;
  }

  /// Reads the frame of weights, and those of memory before it.
  void take_weights(const lease& work) {
    for (;;) {
      auto frame = next();
      auto body = read(frame);
      if (frame.kind == kind::memory) {
        CHECK(body.number<uint64_t>() == memory_page);
        continue;
      }
      CHECK(frame.kind == kind::weights);
      CHECK(frame.number == work.id.value);
      CHECK(body.number<uint64_t>() == 7);
      CHECK(body.number<uint8_t>() == (last_was_dropped ? 1 : 0));
      CHECK(body.number<uint8_t>() == 0); // It begins with them.
      body.number<uint64_t>();
      CHECK(body.number<uint64_t>() == 0);
      body.number<uint64_t>();
      CHECK(body.number<uint64_t>() == 0);
      steps = body.number<uint64_t>();
      for (int block = 0; block < 2; ++block) { // All of each is exchanged.
        CHECK(body.number<uint64_t>() == 0);
        CHECK(body.number<uint64_t>() > 0);
      }
      CHECK(body.complete());
      return;
    }
  }

  void send(kind type, lease_id number, const std::string& body = {}) {
    actors.tell(agent, frame_atom_v, static_cast<uint32_t>(type), number.value,
                body);
  }

  void send_gradient(lease_id number, uint64_t count = 8, double loss = 0.5,
                     const std::vector<lease_id>& also = {},
                     const config::metrics& metrics = {}) {
    body_writer body;
    body.put(count).put(loss).put(static_cast<uint32_t>(also.size()));
    for (auto id : also)
      body.put(id.value);
    body.put(static_cast<uint32_t>(metrics.size()));
    for (const auto& one : metrics)
      body.put(one.name).put(one.value);
    send(kind::gradient, number, body.take_bytes());
  }

  void begin(const lease& work) {
    load(work);
    expect(kind::lease, work.id);
  }

  actor_fixture actors;
  session_client_stand_in session = make_session_client_stand_in(actors);
  data::epoch_order order{3, samples};
  models::flat_layout layout;
  std::shared_ptr<transport::shared_memory> memory =
    std::make_shared<transport::shared_memory>();
  bool last_was_dropped = false;
  cancel_ptr cancel = std::make_shared<std::atomic<bool>>(false);
  uint32_t steps_by_server = 0;
  uint64_t steps = 0; ///< As the process was told with the last weights.
  progress_ptr progress = std::make_shared<std::atomic<uint64_t>>(0);
  process_line_ptr process;
  agent_actor agent;
};

/// A site that has read the welcome.
struct open_site : site {
  explicit open_site(uint32_t local_steps = 0) : site(local_steps) {
    welcome = next();
  }

  /// The process is asked for this lease.
  answer_ptr<gradient_report> ask_for(const lease& work) {
    begin(work);
    auto out = compute(work);
    take_weights(work);
    return out;
  }

  process_frame welcome;
};

} // namespace

TEST_CASE("the process is told where each tensor lies") {
  open_site on;
  CHECK(on.welcome.kind == kind::welcome);
  CHECK(on.welcome.number == frame_version);
  auto body = read(on.welcome);
  CHECK(body.number<uint32_t>() == 1); // float32
  CHECK(body.number<uint64_t>() == 10);
  CHECK(body.number<uint64_t>() == 0);
  CHECK(body.number<uint64_t>() == 0);
  CHECK(body.number<uint64_t>() == 64);
  CHECK(body.number<uint64_t>() == 1);
  CHECK(body.number<uint64_t>() == 0); // Local steps.
  CHECK(body.number<uint64_t>() == 0); // Of these, before weights come.
  CHECK(body.number<uint8_t>() == 0);
  REQUIRE(body.number<uint32_t>() == 2);
  for (const auto& slot : on.layout.state_dict()) {
    CHECK(body.text() == slot.name);
    CHECK(body.number<uint8_t>() == 0);
    CHECK(body.number<uint8_t>() == 0);
    CHECK(body.text() == "");
    CHECK(body.number<uint64_t>() == slot.offset);
    REQUIRE(body.number<uint32_t>() == slot.shape.size());
    for (auto extent : slot.shape)
      CHECK(body.number<uint64_t>() == static_cast<uint64_t>(extent));
  }
  CHECK(body.complete());
}

TEST_CASE("a lease is its samples, in the order of the epoch") {
  open_site on;
  on.load(second_lease);
  auto frame = on.next();
  CHECK(frame.kind == kind::lease);
  CHECK(frame.number == 12);
  auto body = read(frame);
  CHECK(body.number<uint64_t>() == 2);
  CHECK(body.number<uint32_t>() == 0);
  REQUIRE(body.number<uint32_t>() == 8);
  for (auto index : on.order.lease_indices(2, 8, 8))
    CHECK(body.number<uint64_t>() == static_cast<uint64_t>(index));
  CHECK(body.complete());
}

TEST_CASE("a gradient is what lies in the block that the process got") {
  open_site on;
  on.begin(first_lease);
  auto report = on.compute(first_lease);
  std::map<uint64_t, process_frame> regions;
  auto frame = on.next();
  for (; frame.kind == kind::memory; frame = on.next())
    regions.emplace(frame.number, frame);
  auto body = read(frame);
  body.number<uint64_t>();
  body.number<uint8_t>();
  CHECK(body.number<uint8_t>() == 0); // It begins with these weights.
  CHECK(regions.contains(body.number<uint64_t>()));
  body.number<uint64_t>();
  CHECK(regions.contains(body.number<uint64_t>()));
  CHECK(report->open());
  on.send_gradient(first_lease.id, 8, 0.25, {}, {{"f1", 0.75}});
  const auto& found = report->get<gradient_report>();
  CHECK((found.metrics == config::metrics{{"f1", 0.75}}));
  CHECK_FALSE(found.cancelled);
  CHECK(found.samples == 8);
  CHECK(found.loss == 0.25);
  CHECK(found.gradient.shape().count == on.layout.count());
  CHECK(on.memory->find(found.gradient.host_bytes().data(), 40).has_value());
  CHECK(on.session->ended.empty());
}

TEST_CASE("a gradient may cover leases that come later") {
  open_site on;
  on.begin(first_lease);
  on.begin(second_lease);
  on.begin(third_lease);
  auto report = on.compute(first_lease);
  on.take_weights(first_lease);
  SECTION("each once") {
    on.send_gradient(first_lease.id, 16, 0.5, {second_lease.id});
    const auto& found = report->get<gradient_report>();
    CHECK(found.samples == 16);
    CHECK((found.also == std::vector{second_lease.id}));
    on.last_was_dropped = true;
    on.compute(third_lease);
    on.take_weights(third_lease);
  }
  SECTION("and not twice") {
    on.send_gradient(first_lease.id, 24, 0.5,
                     {second_lease.id, second_lease.id});
    CHECK(report->error.has_value());
  }
  SECTION("and not one that was given back") {
    on.send(kind::returned, second_lease.id);
    on.send_gradient(first_lease.id, 16, 0.5, {second_lease.id});
    CHECK(report->error.has_value());
  }
}

TEST_CASE("a cancelled gradient is answered at once, and may still come") {
  open_site on;
  auto report = on.ask_for(first_lease);
  on.actors.tell(on.agent, cancel_atom_v);
  CHECK(report->get<gradient_report>().cancelled);
  on.expect(kind::cancelled, first_lease.id);
  auto next = on.ask_for(second_lease);
  on.send_gradient(first_lease.id);
  CHECK(next->open());
  on.send_gradient(second_lease.id);
  CHECK_FALSE(next->get<gradient_report>().cancelled);
  CHECK(on.session->ended.empty());
}

TEST_CASE("what a cancelled gradient covers besides goes back, too") {
  open_site on;
  on.begin(first_lease);
  on.begin(second_lease);
  on.begin(third_lease);
  on.compute(first_lease);
  on.take_weights(first_lease);
  on.actors.tell(on.agent, cancel_atom_v);
  on.expect(kind::cancelled, first_lease.id);
  on.send_gradient(first_lease.id, 16, 0.5, {second_lease.id});
  CHECK(on.compute(second_lease)->get<gradient_report>().cancelled);
  on.compute(third_lease);
  on.take_weights(third_lease);
}

TEST_CASE("the process does not wait for what was cancelled before it began") {
  open_site on;
  on.begin(first_lease);
  *on.cancel = true;
  CHECK(on.compute(first_lease)->get<gradient_report>().cancelled);
  on.expect(kind::withdrawn, first_lease.id);
  *on.cancel = false;
  on.ask_for(second_lease);
}

TEST_CASE("a lease that the process returns is given up") {
  open_site on;
  SECTION("while it is asked for") {
    auto report = on.ask_for(first_lease);
    on.send(kind::returned, first_lease.id);
    CHECK(report->get<gradient_report>().cancelled);
  }
  SECTION("before") {
    on.begin(first_lease);
    on.send(kind::returned, first_lease.id);
    CHECK(on.compute(first_lease)->get<gradient_report>().cancelled);
  }
  SECTION("after it was settled, which changes nothing") {
    auto report = on.ask_for(first_lease);
    on.send_gradient(first_lease.id);
    on.send(kind::returned, first_lease.id);
  }
  auto next = on.ask_for(second_lease);
  on.send_gradient(second_lease.id);
  CHECK_FALSE(next->get<gradient_report>().cancelled);
}

TEST_CASE("leases of a lost place in the cluster are withdrawn") {
  open_site on;
  on.begin(first_lease);
  on.begin(second_lease);
  on.begin(third_lease);
  on.compute(third_lease);
  on.expect(kind::withdrawn, first_lease.id);
  on.expect(kind::withdrawn, second_lease.id);
  on.take_weights(third_lease);
}

TEST_CASE("a process that says wrong things loses its worker") {
  open_site on;
  auto report = on.ask_for(first_lease);
  std::string line;
  SECTION("a gradient nobody asked for") {
    on.send_gradient(second_lease.id);
    line = "sent a gradient that it was not asked for";
  }
  SECTION("another number of samples") {
    on.send_gradient(first_lease.id, 7);
    line = "sent a gradient of 7 samples, and its leases have 8";
  }
  SECTION("a lease that it does not have") {
    on.send_gradient(first_lease.id, 16, 0.5, {second_lease.id});
    line = "sent a gradient of 16 samples, and its leases have 8";
  }
  SECTION("a body of another form") {
    on.send(kind::gradient, first_lease.id, "short");
    line = "sent a gradient's frame of another form";
  }
  SECTION("a metric without a name") {
    on.send_gradient(first_lease.id, 8, 0.5, {}, {{"", 1}});
    line = "sent a metric with the name ''; a letter comes first, then "
           "letters, digits and _.-/";
  }
  SECTION("a frame of unknown kind") {
    on.send(kind::welcome, first_lease.id);
    line = "sent a frame of unknown kind 65";
  }
  SECTION("a step of another lease") {
    on.send(kind::stepped, second_lease.id);
    line = "made a local step that it was not asked for";
  }
  CHECK(report->error.has_value());
  REQUIRE(on.session->ended.size() == 1);
  CHECK(on.session->ended[0].status == 1);
  CHECK(on.session->ended[0].line ==
        "process " + std::to_string(on.process->pid()) + " " + line);
}

TEST_CASE("a process that is silent loses its worker") {
  open_site on;
  auto first = on.ask_for(first_lease);
  on.actors.advance(4.5);
  on.actors.tell(on.agent, tick_atom_v);
  on.send_gradient(first_lease.id);
  auto report = on.ask_for(second_lease);
  on.actors.advance(4.5);
  on.actors.tell(on.agent, tick_atom_v);
  CHECK(report->open());
  on.actors.advance(1);
  on.actors.tell(on.agent, tick_atom_v);
  CHECK(report->code() == errc::timed_out);
  REQUIRE(on.session->ended.size() == 1);
  CHECK(on.session->ended[0].line ==
        "process " + std::to_string(on.process->pid()) +
          " has sent no gradient in 5 s (--compute-timeout)");
}

TEST_CASE("a round may take long as long as its steps come") {
  open_site on{100};
  auto report = on.ask_for(first_lease);
  for (uint64_t steps = 1; steps <= 3; ++steps) {
    on.actors.advance(4.5);
    on.send(kind::stepped, first_lease.id);
    on.actors.tell(on.agent, tick_atom_v);
    CHECK(*on.progress == steps);
  }
  CHECK(report->open());
  on.actors.advance(5.5);
  on.actors.tell(on.agent, tick_atom_v);
  CHECK(report->code() == errc::timed_out);
  REQUIRE(on.session->ended.size() == 1);
  CHECK(on.session->ended[0].line.ends_with(
    "has made no local step in 5 s (--compute-timeout)"));
}

TEST_CASE("a process is told how many steps its round has") {
  open_site on{100};
  on.ask_for(first_lease);
  CHECK(on.steps == 100);
  on.send_gradient(first_lease.id);
  on.steps_by_server = 7;
  on.ask_for(second_lease);
  CHECK(on.steps == 7);
}

TEST_CASE("a process that ends takes its worker with it") {
  open_site on;
  SECTION("while it computes") {
    auto report = on.ask_for(first_lease);
    on.actors.tell(on.agent, detach_atom_v,
                   caf::make_error(errc::peer_lost, "it has ended"));
    CHECK(report->code() == errc::peer_lost);
  }
  SECTION("while it waits, also for what comes later") {
    on.actors.tell(on.agent, detach_atom_v,
                   caf::make_error(errc::peer_lost, "it has ended"));
    CHECK(on.compute(first_lease)->code() == errc::peer_lost);
  }
  REQUIRE(on.session->ended.size() == 1);
  CHECK(on.session->ended[0].line == "it has ended");
}

TEST_CASE("the process is told how the run ended") {
  open_site on;
  on.actors.tell(on.agent, ended_atom_v, run_end{1, "no server any more"});
  auto frame = on.next();
  CHECK(frame.kind == kind::end);
  auto body = read(frame);
  CHECK(body.number<uint8_t>() == 1);
  CHECK(body.text() == "no server any more");
  CHECK_FALSE(on.process->receive().has_value());
}

TEST_CASE("a lease whose number was there before gets another one") {
  open_site on;
  on.ask_for(second_lease);
  on.actors.tell(on.agent, cancel_atom_v);
  on.expect(kind::cancelled, second_lease.id);
  // A lease with the same number but other samples, of a server that was
  // started again.
  lease same{second_lease.id, 0, 40, 8};
  on.load(same);
  on.expect(kind::lease, lease_id{13});
  auto report = on.compute(same);
  for (auto frame = on.next(); frame.kind != kind::weights; frame = on.next())
    CHECK(frame.kind == kind::memory);
  on.send_gradient(second_lease.id); // For the earlier lease.
  CHECK(report->open());
  on.send_gradient(lease_id{13});
  CHECK(report->get<gradient_report>().samples == 8);
}

TEST_CASE("the time of a gradient runs on though it was cancelled") {
  open_site on;
  on.ask_for(first_lease);
  for (auto number = 12; number < 16; ++number) {
    on.actors.tell(on.agent, cancel_atom_v);
    on.actors.advance(2);
    on.actors.tell(on.agent, tick_atom_v);
    lease next{lease_id{static_cast<uint64_t>(number)}, 2, 16, 8};
    on.load(next);
    on.compute(next);
  }
  REQUIRE(on.session->ended.size() == 1);
  CHECK(on.session->ended[0].line.ends_with(
    "has sent no gradient in 5 s (--compute-timeout)"));
}

TEST_CASE("a process that has left its loop keeps nobody waiting") {
  open_site on;
  on.begin(first_lease);
  on.begin(second_lease);
  auto report = on.compute(first_lease);
  on.take_weights(first_lease);
  on.send(kind::paused, lease_id{0});
  CHECK(report->get<gradient_report>().cancelled);
  on.expect(kind::withdrawn, second_lease.id);
  on.expect(kind::cancelled, first_lease.id);
  CHECK(on.session->pauses == 1);
  SECTION("not even with leases that come before its worker has left") {
    on.load(third_lease);
    CHECK(on.compute(third_lease)->get<gradient_report>().cancelled);
  }
  SECTION("and its time does not run") {
    on.actors.advance(20);
    on.actors.tell(on.agent, tick_atom_v);
    CHECK(on.session->ended.empty());
  }
  on.send(kind::resumed, lease_id{0});
  CHECK(on.session->resumes == 1);
  on.actors.tell(on.agent, tick_atom_v);
  CHECK(on.session->ended.empty());
  lease next{lease_id{20}, 2, 16, 8};
  on.ask_for(next);
  on.send(kind::returned, first_lease.id);
  on.send_gradient(next.id);
}

TEST_CASE("the process gets the weights that the run ends with") {
  open_site on;
  on.ask_for(first_lease);
  on.send_gradient(first_lease.id);
  auto applied = GENERATE(true, false);
  auto weights = random_payload(on.layout.count(), 5);
  on.actors.tell(on.agent, ended_atom_v, version{9}, weights, applied);
  on.actors.tell(on.agent, ended_atom_v, run_end{});
  auto frame = on.next();
  if (frame.kind == kind::memory)
    frame = on.next();
  CHECK(frame.kind == kind::last);
  CHECK(frame.number == 9);
  auto body = read(frame);
  CHECK(body.number<uint64_t>() == (applied ? first_lease.id.value : 0));
  body.number<uint64_t>();
  body.number<uint64_t>();
  CHECK(body.complete());
  CHECK(on.next().kind == kind::end);
}
