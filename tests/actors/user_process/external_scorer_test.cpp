// The scorer of another process, with a process that says what a test wants.

#include "actors/runtime/tensor_payload.hpp"
#include "actors/user_process/scorer.hpp"
#include "tests/support/doubles.hpp"
#include "tests/support/payloads.hpp"

#include <catch2/catch_test_macros.hpp>
#include <sys/socket.h>

#include <cmath>

using namespace troupe;
using namespace troupe::external;
using namespace troupe::test;

namespace {

using kind = process_frame_kind;

constexpr auto v7 = version{7};

/// A scorer, and the other end of its line.
struct scorer_site {
  explicit scorer_site(const std::string& target = "") {
    int ends[2];
    REQUIRE(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
    auto line = std::make_shared<process_line>(transport::descriptor{ends[0]});
    process = std::make_shared<process_line>(transport::descriptor{ends[1]});
    config::settings settings;
    settings.training.compute_timeout = 5;
    settings.training.target = target;
    layout = models::flat_layout::from({{"a", {2, 3}}, {"b", {4}}},
                                       config::scalar_type::float32);
    scorer = actors.make<external_scorer_actor, external_scorer_state>(
      user_process_parts{settings,
                         layout,
                         {},
                         {std::make_shared<transport::shared_memory>(), {}},
                         line,
                         session.handle});
    actors.run();
    CHECK(process->receive()->kind == kind::welcome);
  }

  answer_ptr<score> ask(version number = v7, bool of_average = false) {
    auto out = actors.ask<score>(scorer, evaluate_atom_v, number,
                                 random_payload(layout.count(), number.value),
                                 of_average);
    actors.run();
    return out;
  }

  /// The process answers.
  void send(const config::metrics& found, version number = v7) {
    body_writer body;
    body.put(uint64_t{360}).put(static_cast<uint32_t>(found.size()));
    for (const auto& one : found)
      body.put(one.name).put(one.value);
    send_frame(kind::scored, number, body.take_bytes());
  }

  void send_frame(kind type, version number, const std::string& body) {
    actors.tell(scorer, frame_atom_v, static_cast<uint32_t>(type), number.value,
                body);
    actors.run();
  }

  actor_fixture actors;
  session_client_stand_in session = make_session_client_stand_in(actors);
  models::flat_layout layout;
  process_line_ptr process;
  external_scorer_actor scorer;
};

config::metrics many(size_t count) {
  config::metrics out;
  for (size_t i = 0; i < count; ++i)
    out.push_back({"m" + std::to_string(i), 0.5});
  return out;
}

} // namespace

TEST_CASE("a process gets a version and answers with its metrics") {
  scorer_site play{"f1>=0.9"};
  auto found = play.ask();
  CHECK(play.process->receive()->kind == kind::memory);
  auto asked = play.process->receive();
  CHECK(asked->kind == kind::score);
  CHECK(asked->number == v7.value);
  body_reader where{std::as_bytes(std::span{asked->body})};
  where.number<uint64_t>();
  CHECK(where.number<uint64_t>() == 0); // The first block of its region.
  CHECK(where.number<uint8_t>() == 0);
  CHECK(where.complete());
  play.actors.advance(2);
  play.send({{"f1", 0.25}, {"loss", 3}});
  auto all = found->get<score>();
  CHECK(all.weights == v7);
  CHECK(all.samples == 360);
  CHECK(std::abs(all.seconds - 2) < 1e-6);
  CHECK(all.value_of("f1") == 0.25);
  CHECK(all.value_of("loss") == 3);
  // The next one has its place.
  auto next = play.ask(version{8});
  CHECK(play.process->receive()->kind == kind::score);
  play.send({{"f1", 0.5}}, version{8});
  CHECK(next->get<score>().value_of("f1") == 0.5);
  CHECK(play.session->ended.empty());
}

TEST_CASE("a process is told that it scores an average") {
  scorer_site play;
  play.ask(v7, true);
  CHECK(play.process->receive()->kind == kind::memory);
  auto asked = play.process->receive();
  REQUIRE(asked->body.size() == 17);
  CHECK(asked->body.back() == 1);
}

TEST_CASE("a version that comes too early waits for its turn") {
  scorer_site play;
  auto first = play.ask();
  CHECK(play.process->receive()->kind == kind::memory);
  CHECK(play.process->receive()->number == v7.value);
  auto second = play.ask(version{8});
  play.actors.advance(4);
  SECTION("and is scored then") {
    play.send({{"f1", 0.5}});
    CHECK(first->get<score>().weights == v7);
    CHECK(second->open());
    auto asked = play.process->receive();
    CHECK(asked->kind == kind::score);
    CHECK(asked->number == 8);
    // Its time counts from then on.
    play.actors.advance(4);
    play.actors.tell(play.scorer, tick_atom_v);
    play.send({{"f1", 0.75}}, version{8});
    CHECK(second->get<score>().value_of("f1") == 0.75);
  }
  SECTION("and is refused if the process goes") {
    play.actors.tell(play.scorer, detach_atom_v,
                     caf::make_error(errc::peer_lost, "gone"));
    play.actors.run();
    CHECK(first->code() == errc::peer_lost);
    CHECK(second->code() == errc::peer_lost);
  }
}

TEST_CASE("a score that cannot be used ends the evaluator with one line") {
  auto line_after = [](const config::metrics& found) {
    scorer_site play{"f1>=0.9"};
    auto answer = play.ask();
    play.send(found);
    CHECK(answer->code() == errc::bad_data);
    REQUIRE(play.session->ended.size() == 1);
    CHECK(play.session->ended[0].status == 1);
    // Whoever asks again gets the same.
    CHECK(play.ask(version{8})->code() == errc::bad_data);
    return play.session->ended[0].line;
  };
  auto says = [&](const config::metrics& found, const std::string& text) {
    auto line = line_after(found);
    INFO(line);
    CHECK(line.find(text) != std::string::npos);
  };
  says({}, "sent a score without a metric");
  says(many(65), "sent 65 metrics; at most 64 are possible");
  says({{"", 1}}, "sent a metric with the name ''");
  says({{"a\n", 1}}, "sent a metric with the name 'a\\x0a'");
  says({{std::string(65, 'a'), 1}}, "sent a metric with the name 'aaa");
  says({{"loss", 1}}, "--target f1>=0.9: the score has no f1, only loss");
}

TEST_CASE("a process that does not keep to the frames ends the evaluator") {
  scorer_site play;
  auto answer = play.ask();
  SECTION("a score that nobody asked for") {
    play.send({{"f1", 1}}, version{8});
  }
  SECTION("a frame of another kind") {
    play.send_frame(kind::gradient, v7, {});
  }
  SECTION("it has gone") {
    play.actors.tell(play.scorer, detach_atom_v,
                     caf::make_error(errc::peer_lost, "process 5 has ended"));
    play.actors.run();
    CHECK(answer->code() == errc::peer_lost);
    CHECK(play.session->ended.at(0).line == "process 5 has ended");
    return;
  }
  CHECK(answer->code() == errc::protocol_violation);
  CHECK(play.session->ended.size() == 1);
}

TEST_CASE("a score of another form ends the evaluator") {
  body_writer whole;
  whole.put(uint64_t{1}).put(uint32_t{1}).put("f1").put(0.5);
  auto right = whole.take_bytes();
  for (size_t size = 0; size <= right.size() + 1; ++size) {
    scorer_site play;
    auto answer = play.ask();
    auto body = right;
    body.resize(size);
    play.send_frame(kind::scored, v7, body);
    INFO(size);
    CHECK(play.session->ended.empty() == (size == right.size()));
    CHECK(answer->values.has_value() == (size == right.size()));
  }
}

TEST_CASE("a process may take so long for a score and no longer") {
  scorer_site play;
  play.actors.tell(play.scorer, tick_atom_v);
  play.actors.advance(60); // Nothing was asked.
  play.actors.tell(play.scorer, tick_atom_v);
  play.actors.run();
  CHECK(play.session->ended.empty());
  auto answer = play.ask();
  play.actors.advance(4.9);
  play.actors.tell(play.scorer, tick_atom_v);
  play.actors.run();
  CHECK(play.session->ended.empty());
  play.actors.advance(0.2);
  play.actors.tell(play.scorer, tick_atom_v);
  play.actors.run();
  CHECK(answer->code() == errc::timed_out);
}
