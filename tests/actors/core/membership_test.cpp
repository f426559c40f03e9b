#include "actors/core/membership.hpp"

#include <catch2/catch_test_macros.hpp>

#include <random>

using namespace troupe;
using namespace troupe::cores;

namespace {

/// `2.1 #3` for life 1 of rank 2, which change 3 has given; or the refusal.
std::string seat_text(const std::variant<seat, turned_away>& x) {
  if (auto why = std::get_if<turned_away>(&x))
    return std::string{to_string(*why)};
  auto& s = std::get<seat>(x);
  return to_string(s.worker) + "." + to_string(s.life) + " #" +
         std::to_string(s.change);
}

constexpr worker_id rank(uint32_t x) {
  return worker_id{x};
}

constexpr life_number life(uint32_t x) {
  return life_number{x};
}

constexpr membership_rules four{4, 60, 8};

} // namespace

TEST_CASE("workers get the lowest free rank") {
  membership cluster{four, 0};
  CHECK(seat_text(cluster.admit({}, 0)) == "0.1 #1");
  CHECK(seat_text(cluster.admit(rank(2), 0)) == "2.1 #2");
  CHECK(seat_text(cluster.admit({}, 0)) == "1.1 #3");
  CHECK(seat_text(cluster.admit({}, 0)) == "3.1 #4");
  CHECK(cluster.size() == 4);
}

TEST_CASE("a late joiner gets the next rank when all are live") {
  membership cluster{four, 0};
  for (int i = 0; i < 4; ++i)
    cluster.admit({}, 0);
  CHECK(seat_text(cluster.admit({}, 0)) == "4.1 #5");
  CHECK(cluster.leave(rank(1), life(1)));
  CHECK(seat_text(cluster.admit({}, 0)) == "1.2 #7");
}

TEST_CASE("a rank that comes back has a higher life number than ever") {
  membership cluster{four, 0};
  cluster.admit(rank(1), 0);
  CHECK(cluster.leave(rank(1), life(1)));
  CHECK(seat_text(cluster.admit(rank(1), 0)) == "1.2 #3");
  CHECK(cluster.leave(rank(1), life(2)));
  CHECK(seat_text(cluster.admit(rank(1), 0)) == "1.3 #5");
  SECTION("earlier runs of the server included") {
    cluster.remember(rank(0), life(7));
    cluster.remember(rank(0), life(3));
    CHECK(seat_text(cluster.admit({}, 0)) == "0.8 #6");
  }
}

TEST_CASE("an older life's departure is ignored") {
  membership cluster{four, 0};
  cluster.admit({}, 0);
  cluster.leave(rank(0), life(1));
  cluster.admit({}, 0);
  CHECK(!cluster.leave(rank(0), life(1)));
  CHECK(cluster.contains(rank(0), life(2)));
  CHECK(!cluster.contains(rank(0), life(1)));
  CHECK(!cluster.leave(rank(9), life(1)));
  CHECK(cluster.change() == 3);
}

TEST_CASE("ranks that are kept are only for those that ask for them") {
  membership cluster{{4, 60, 8, 4}, 0};
  CHECK(seat_text(cluster.admit({}, 0)) == "4.1 #1");
  CHECK(seat_text(cluster.admit(rank(1), 0)) == "1.1 #2");
  CHECK(seat_text(cluster.admit({}, 0)) == "5.1 #3");
  cluster.leave(rank(4), life(1));
  CHECK(seat_text(cluster.admit({}, 0)) == "4.2 #5");
}

TEST_CASE("a seat is refused with a reason") {
  membership cluster{four, 0};
  cluster.admit(rank(0), 0);
  CHECK(seat_text(cluster.admit(rank(0), 0)) == "rank_taken");
  CHECK(seat_text(cluster.admit(rank(8), 0)) == "rank_too_high");
  for (int i = 1; i < 8; ++i)
    cluster.admit({}, 0);
  CHECK(seat_text(cluster.admit({}, 0)) == "cluster_full");
  CHECK(cluster.change() == 8);
}

TEST_CASE("training starts when all workers have joined") {
  membership cluster{four, 0};
  for (int i = 0; i < 3; ++i) {
    cluster.admit({}, 1);
    CHECK(!cluster.start_if_due(1));
  }
  cluster.admit({}, 2);
  CHECK(cluster.start_if_due(2));
  CHECK(cluster.started());
  CHECK(!cluster.start_if_due(3));
}

TEST_CASE("a cluster whose number varies has fewest and most workers") {
  auto rules = four;
  rules.fewest = 2;
  rules.most = 3;
  rules.workers = 3;
  membership cluster{rules, 0};
  cluster.admit({}, 1);
  CHECK(!cluster.start_if_due(100));
  cluster.admit({}, 101);
  CHECK(cluster.start_if_due(101));
  cluster.admit({}, 102);
  CHECK(seat_text(cluster.admit({}, 103)) == "too_many");
  CHECK(seat_text(cluster.admit(rank(1), 103)) == "rank_taken");
  cluster.leave(rank(0), life(1));
  CHECK(seat_text(cluster.admit({}, 104)) == "0.2 #5");
}

TEST_CASE("training starts with fewer workers after the join timeout") {
  membership cluster{four, 100};
  CHECK(cluster.join_deadline() == 160);
  SECTION("with those that are there") {
    cluster.admit({}, 110);
    CHECK(!cluster.start_if_due(159.9));
    CHECK(cluster.start_if_due(160));
  }
  SECTION("with the first one that comes") {
    CHECK(!cluster.start_if_due(160));
    cluster.admit({}, 500);
    CHECK(cluster.start_if_due(500));
  }
  SECTION("but those that left do not count") {
    cluster.admit({}, 110);
    cluster.leave(rank(0), life(1));
    CHECK(!cluster.start_if_due(160));
  }
}

TEST_CASE("a member that is not heard of is silent") {
  membership cluster{four, 0};
  cluster.admit({}, 0);
  cluster.admit({}, 5);
  CHECK(cluster.silent(10, 10).empty());
  CHECK(cluster.silent(10.5, 10) == std::vector<seat>{{rank(0), life(1), 1}});
  CHECK(cluster.heard(rank(0), life(1), 10));
  CHECK(cluster.silent(15, 10).empty());
  CHECK(cluster.silent(16, 10) == std::vector<seat>{{rank(1), life(1), 2}});
  CHECK(!cluster.heard(rank(0), life(2), 16));
  CHECK(!cluster.heard(rank(3), life(1), 16));
}

TEST_CASE("what nobody listened to is nobody's silence") {
  membership cluster{four, 0};
  cluster.admit({}, 0);
  cluster.admit({}, 5);
  cluster.excuse(50, 60);
  CHECK(cluster.silent(60, 10).empty());
  CHECK(cluster.silent(61, 10) == std::vector<seat>{{rank(0), life(1), 1}});
  cluster.excuse(1000, 61);
  CHECK(cluster.silent(71, 10).empty());
  CHECK(cluster.silent(71.5, 10).size() == 2);
}

TEST_CASE("in any history seats are unique and lives only rise") {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    INFO("seed " << seed);
    std::mt19937_64 random{seed};
    membership cluster{{4, 60, 16}, 0};
    std::map<worker_id, life_number> live;
    std::map<worker_id, life_number> highest;
    uint64_t changes = 0;
    for (int i = 0; i < 300; ++i) {
      worker_id who{static_cast<uint32_t>(random() % 18)};
      if (random() % 2 == 0) {
        std::optional<worker_id> wanted;
        if (random() % 2 == 0)
          wanted = who;
        auto found = cluster.admit(wanted, i);
        if (auto s = std::get_if<seat>(&found)) {
          REQUIRE(!live.contains(s->worker));
          REQUIRE(s->life > highest[s->worker]);
          REQUIRE(s->change == ++changes);
          live[s->worker] = highest[s->worker] = s->life;
        } else if (std::get<turned_away>(found) == turned_away::rank_taken) {
          REQUIRE(live.contains(*wanted));
        }
      } else {
        life_number x{static_cast<uint32_t>(1 + random() % 3)};
        auto present = live.contains(who) && live[who] == x;
        REQUIRE(cluster.leave(who, x) == present);
        if (present) {
          live.erase(who);
          ++changes;
        }
      }
      REQUIRE(cluster.size() == live.size());
      REQUIRE(cluster.change() == changes);
    }
    for (auto& s : cluster.members())
      REQUIRE(live.at(s.worker) == s.life);
  }
}
