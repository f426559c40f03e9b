#include "actors/events/turn_watch.hpp"

#include <catch2/catch_test_macros.hpp>

using namespace troupe;

namespace {

using time_point = caf::actor_clock::time_point;

constexpr worker_id one_worker{0};
constexpr worker_id other_worker{1};

time_point instant(double seconds) {
  return time_point{} + std::chrono::duration_cast<time_point::duration>(
                          std::chrono::duration<double>(seconds));
}

/// A server with two workers, whose time the test tells.
class played_watch {
public:
  explicit played_watch(std::optional<double> limit = std::nullopt)
    : watch_(limit) {
    for (auto who : {one_worker, other_worker})
      tell(0, inputs::enlisted{who, life_number{1}, "stream"});
    release(0, {one_worker, other_worker});
  }

  void release(double now, std::vector<worker_id> who) {
    cores::orders decided;
    for (auto each : who)
      decided.release.push_back({each, {}});
    tell(now, inputs::joined{}, decided);
  }

  void push(double now, worker_id who) {
    push_header header;
    header.id.worker = who;
    tell(now, inputs::arrived{header, {}});
  }

  /// Both workers make so many turns of one second, from 0 on.
  void make_turns(int turns) {
    for (int i = 1; i <= turns; ++i) {
      push(i, one_worker);
      push(i, other_worker);
      release(i, {one_worker, other_worker});
    }
    look_until(turns);
  }

  void note_steps(double now, worker_id who, uint64_t steps) {
    watch_.note_steps(who, life_number{1}, steps, instant(now));
  }

  std::vector<worker_id> silent() const { return watch_.silent(); }

  /// Looks at the watch's intervals; returns the workers that it found late,
  /// and when.
  std::vector<std::pair<worker_id, double>> look_until(double end,
                                                       bool listens = true) {
    std::vector<std::pair<worker_id, double>> out;
    for (; now_ <= end; now_ += watch_.interval())
      for (const auto& one : watch_.look(instant(now_), listens))
        out.emplace_back(one.who, now_);
    return out;
  }

  bool is_late(worker_id who) const { return watch_.is_late(who); }

  void sleep_until(double now) { now_ = now; }

  void tell(double now, input cause, cores::orders decided = {}) {
    event out;
    out.time = instant(now);
    out.what = std::move(cause);
    out.decided = std::move(decided);
    watch_.on_event(out);
  }

private:
  turn_watch watch_;
  double now_ = 0;
};

} // namespace

TEST_CASE("a worker that takes ten times its usual turn hangs") {
  played_watch play;
  play.make_turns(10);
  play.push(11, one_worker);
  auto found = play.look_until(60);
  REQUIRE(found.size() == 1); // Once.
  CHECK(found[0].first == other_worker);
  CHECK(found[0].second > 10 + 10);
  CHECK(found[0].second < 10 + 10 + 2);
}

TEST_CASE("short turns give a worker five seconds") {
  played_watch play;
  for (int i = 1; i <= 40; ++i) {
    play.push(0.1 * i, one_worker);
    play.push(0.1 * i, other_worker);
    play.release(0.1 * i, {one_worker, other_worker});
  }
  play.push(4.1, other_worker);
  auto found = play.look_until(20);
  REQUIRE(found.size() == 1);
  CHECK(found[0].first == one_worker);
  CHECK(found[0].second > 4 + 5);
  CHECK(found[0].second < 4 + 5 + 1.1);
}

TEST_CASE("a worker with few turns does not hang") {
  played_watch play;
  play.make_turns(9);
  play.push(10, one_worker);
  CHECK(play.look_until(1000).empty());
}

TEST_CASE("nobody hangs where nobody goes on") {
  played_watch play;
  play.make_turns(10);
  CHECK(play.look_until(1000).empty());
}

TEST_CASE("time that the server stood still does not count") {
  played_watch play;
  play.make_turns(10);
  SECTION("because it was stopped, and perhaps the others with it") {
    play.sleep_until(40);
    play.push(40, one_worker);
    CHECK(play.look_until(48).empty());
    CHECK(play.look_until(52).size() == 1);
  }
  SECTION("because it handles no requests") {
    play.push(11, one_worker);
    CHECK(play.look_until(40, false).empty());
    CHECK(play.look_until(48).empty());
    CHECK(play.look_until(52).size() == 1);
  }
}

TEST_CASE("one slow turn of many is not usual") {
  played_watch play;
  play.make_turns(150);
  play.push(151, one_worker);
  play.push(170, other_worker);
  play.release(170, {one_worker, other_worker});
  play.push(171, one_worker);
  play.look_until(170);
  CHECK(play.look_until(200).size() == 1);
}

TEST_CASE("a limit that is given holds from the first turn on") {
  played_watch play{2};
  play.push(1, one_worker);
  auto found = play.look_until(10);
  REQUIRE(found.size() == 1);
  CHECK(found[0].first == other_worker);
  CHECK(found[0].second <= 2.5);
}

TEST_CASE("a round of local steps may last as long as it goes on") {
  played_watch play{2};
  for (int i = 1; i <= 20; ++i) {
    play.note_steps(i, one_worker, static_cast<uint64_t>(i));
    play.note_steps(i, other_worker, static_cast<uint64_t>(i));
    CHECK(play.look_until(i).empty());
  }
  SECTION("and a worker that stops in its middle hangs, before others push") {
    play.note_steps(21, one_worker, 21);
    auto found = play.look_until(22.9);
    REQUIRE(found.size() == 1);
    CHECK(found[0].first == other_worker);
    CHECK(found[0].second > 22);
    CHECK(found[0].second <= 22.5);
  }
  SECTION("and the same number again is no progress") {
    play.note_steps(21, one_worker, 21);
    play.note_steps(21, other_worker, 20);
    CHECK(play.look_until(22.9).size() == 1);
  }
  SECTION("and an earlier life does not count") {
    CHECK(play.look_until(21).empty());
    play.tell(21, inputs::left{other_worker, life_number{1}, "it ended"});
    play.tell(21, inputs::enlisted{other_worker, life_number{2}, "stream"});
    play.release(21, {other_worker});
    play.note_steps(22, one_worker, 22);
    play.note_steps(22.5, other_worker, 21);
    CHECK(play.look_until(23.6).size() == 1);
  }
}

TEST_CASE("without a limit steps are measured by what a worker is used to") {
  played_watch play;
  double now = 0;
  uint64_t steps = 0;
  for (int turn = 0; turn < 10; ++turn) {
    for (int step = 0; step < 20; ++step) {
      now += 1;
      ++steps;
      play.note_steps(now, one_worker, steps);
      play.note_steps(now, other_worker, steps);
    }
    play.push(now, one_worker);
    play.push(now, other_worker);
    play.release(now, {one_worker, other_worker});
  }
  play.look_until(now);
  play.push(now + 1, one_worker);
  auto found = play.look_until(now + 30);
  REQUIRE(found.size() == 1); // Long before ten rounds of 20 s.
  CHECK(found[0].first == other_worker);
  CHECK(found[0].second > now + 10);
  CHECK(found[0].second < now + 12);
}

TEST_CASE("those are asked for their steps who have shown none for a while") {
  played_watch play{2};
  play.look_until(0);
  CHECK(play.silent().empty());
  play.look_until(0.5);
  CHECK((play.silent() == std::vector{one_worker, other_worker}));
  play.note_steps(0.5, one_worker, 1);
  play.push(0.5, other_worker);
  CHECK(play.silent().empty());
  played_watch nobody{0};
  nobody.look_until(5);
  CHECK(nobody.silent().empty());
}

TEST_CASE("a worker is late that takes twice as long as the quickest") {
  played_watch play{0};
  for (int i = 1; i <= 3; ++i) {
    play.push(i, one_worker);
    play.release(i, {one_worker});
  }
  play.push(3.7, other_worker);
  play.release(3.7, {other_worker});
  play.look_until(5);
  CHECK_FALSE(play.is_late(one_worker));
  CHECK_FALSE(play.is_late(other_worker));
  play.look_until(5.5);
  CHECK(play.is_late(one_worker));
  CHECK_FALSE(play.is_late(other_worker));
  CHECK(play.look_until(1000).empty()); // With a limit of 0 nobody hangs.
}

TEST_CASE("who computes nothing does not hang") {
  played_watch play;
  play.make_turns(10);
  play.push(11, one_worker);
  SECTION("it left") {
    play.tell(12, inputs::left{other_worker, life_number{1}, "it ended"});
  }
  SECTION("it asked anew and waits for its answer") {
    pull_header header;
    header.worker = other_worker;
    play.tell(12, inputs::pulled{header});
  }
  SECTION("its gradient is there") {
    play.push(12, other_worker);
  }
  CHECK(play.look_until(100).empty());
}
