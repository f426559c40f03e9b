#include "actors/server/turn_watch.hpp"

#include <catch2/catch_test_macros.hpp>

using namespace troupe;

namespace {

using time_point = caf::actor_clock::time_point;

constexpr worker_id first{0};
constexpr worker_id second{1};

time_point at(double seconds) {
  return time_point{} + std::chrono::duration_cast<time_point::duration>(
                          std::chrono::duration<double>(seconds));
}

/// A server with two workers, whose time the test tells.
class played_watch {
public:
  explicit played_watch(std::optional<double> limit = std::nullopt)
    : watch_(limit) {
    for (auto who : {first, second})
      tell(0, inputs::enlisted{who, incarnation{1}, "stream"});
    release(0, {first, second});
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

  /// Both make so many turns of a second, from 0 on.
  void make_turns(int turns) {
    for (int i = 1; i <= turns; ++i) {
      push(i, first);
      push(i, second);
      release(i, {first, second});
    }
    look_until(turns);
  }

  /// Looks at its intervals; whom it found last, and when.
  std::vector<std::pair<worker_id, double>> look_until(double end,
                                                       bool listens = true) {
    std::vector<std::pair<worker_id, double>> out;
    for (; now_ <= end; now_ += watch_.interval())
      for (const auto& one : watch_.look(at(now_), listens))
        out.emplace_back(one.who, now_);
    return out;
  }

  bool is_late(worker_id who) const { return watch_.is_late(who); }

  void sleep_until(double now) { now_ = now; }

  void tell(double now, input what, cores::orders decided = {}) {
    event out;
    out.time = at(now);
    out.what = std::move(what);
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
  play.push(11, first);
  auto found = play.look_until(60);
  REQUIRE(found.size() == 1); // Once.
  CHECK(found[0].first == second);
  CHECK(found[0].second > 10 + 10);
  CHECK(found[0].second < 10 + 10 + 2);
}

TEST_CASE("short turns give a worker five seconds") {
  played_watch play;
  for (int i = 1; i <= 40; ++i) {
    play.push(0.1 * i, first);
    play.push(0.1 * i, second);
    play.release(0.1 * i, {first, second});
  }
  play.push(4.1, second);
  auto found = play.look_until(20);
  REQUIRE(found.size() == 1);
  CHECK(found[0].first == first);
  CHECK(found[0].second > 4 + 5);
  CHECK(found[0].second < 4 + 5 + 1.1);
}

TEST_CASE("a worker with few turns does not hang") {
  played_watch play;
  play.make_turns(9);
  play.push(10, first);
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
    play.push(40, first);
    CHECK(play.look_until(48).empty());
    CHECK(play.look_until(52).size() == 1);
  }
  SECTION("because it handles no requests") {
    play.push(11, first);
    CHECK(play.look_until(40, false).empty());
    CHECK(play.look_until(48).empty());
    CHECK(play.look_until(52).size() == 1);
  }
}

TEST_CASE("one slow turn of many is not usual") {
  played_watch play;
  play.make_turns(150);
  play.push(151, first);
  play.push(170, second);
  play.release(170, {first, second});
  play.push(171, first);
  play.look_until(170);
  CHECK(play.look_until(200).size() == 1);
}

TEST_CASE("a limit that is given holds from the first turn on") {
  played_watch play{2};
  play.push(1, first);
  auto found = play.look_until(10);
  REQUIRE(found.size() == 1);
  CHECK(found[0].first == second);
  CHECK(found[0].second < 2.5);
}

TEST_CASE("a worker is late that takes twice as long as the quickest") {
  played_watch play{0};
  for (int i = 1; i <= 3; ++i) {
    play.push(i, first);
    play.release(i, {first});
  }
  play.push(3.2, second);
  play.release(3.2, {second});
  play.look_until(5);
  CHECK_FALSE(play.is_late(first));
  CHECK_FALSE(play.is_late(second));
  play.look_until(5.1);
  CHECK(play.is_late(first));
  CHECK_FALSE(play.is_late(second));
  CHECK(play.look_until(1000).empty()); // With a limit of 0 nobody hangs.
}

TEST_CASE("who computes nothing does not hang") {
  played_watch play;
  play.make_turns(10);
  play.push(11, first);
  SECTION("it left") {
    play.tell(12, inputs::left{second, incarnation{1}, "it ended"});
  }
  SECTION("it asked anew and waits for its answer") {
    pull_header header;
    header.worker = second;
    play.tell(12, inputs::pulled{header});
  }
  SECTION("its gradient is there") {
    play.push(12, second);
  }
  CHECK(play.look_until(100).empty());
}
