// Short scenarios, one for each sentence in the headers of the policies.
// Workers are numbers; the decision after each event is a text.

#include "config/text/failure.hpp"
#include "tests/policies/audited_cluster.hpp"

#include <catch2/catch_test_macros.hpp>

#include <limits>

using namespace troupe;
using policies::policy_spec;
using test::audited_cluster;
using test::text;

namespace {

class story {
public:
  explicit story(const policy_spec& spec) : cluster_(spec) {
    // nop
  }

  std::string join(std::vector<uint32_t> who) {
    std::vector<worker_id> ids;
    for (auto x : who)
      ids.push_back(worker_id{x});
    return text(cluster_.join(ids));
  }

  std::string leave(uint32_t who) {
    return text(cluster_.leave(worker_id{who}));
  }

  std::string push(uint32_t who) { return text(cluster_.push(worker_id{who})); }

  std::string pull(uint32_t who) { return text(cluster_.pull(worker_id{who})); }

  std::string now() const { return cluster_.policy().state(); }

private:
  audited_cluster cluster_;
};

policy_spec sync_spec() {
  return policies::read_spec("sync", 3);
}

policy_spec backup_spec(uint32_t workers, uint32_t backups,
                        const std::string& late = "drop") {
  return policies::read_spec(
    "backup(backup-workers=" + std::to_string(backups) + ",late=" + late + ")",
    workers);
}

policy_spec ssp_spec(uint32_t staleness) {
  return policies::read_spec("ssp(staleness=" + std::to_string(staleness) + ")",
                             3);
}

} // namespace

// -- sync ---------------------------------------------------------------------

TEST_CASE("sync closes a step when all gradients are in") {
  story cluster{sync_spec()};
  CHECK(cluster.join({0, 1, 2}) == "release 0 1 2");
  CHECK(cluster.push(2) == "");
  CHECK(cluster.push(0) == "");
  CHECK(cluster.now() ==
        "sync v=0 members=0:2:0,1:1:0,2:2:0 gradients=2:1:1,0:1:1");
  CHECK(cluster.push(1) == "update 0 1 2, release 0 1 2");
  CHECK(cluster.now() == "sync v=1 members=0:1:1,1:1:1,2:1:1 gradients=");
}

TEST_CASE("sync lets a joiner wait for the next step") {
  story cluster{sync_spec()};
  cluster.join({1, 2});
  CHECK(cluster.join({0}) == "");
  CHECK(cluster.push(1) == "");
  CHECK(cluster.push(2) == "update 1 2, release 0 1 2");
}

TEST_CASE("sync keeps the gradient of a member that left") {
  story cluster{sync_spec()};
  cluster.join({0, 1, 2});
  cluster.push(0);
  CHECK(cluster.leave(0) == "");
  CHECK(cluster.push(1) == "");
  CHECK(cluster.leave(2) == "update 0 1, release 1");
}

TEST_CASE("sync closes the step of an empty cluster") {
  story cluster{sync_spec()};
  cluster.join({0, 1});
  cluster.push(0);
  cluster.leave(0);
  CHECK(cluster.leave(1) == "update 0");
  CHECK(cluster.join({0}) == "release 0");
}

TEST_CASE("sync releases joiners when the last computing member leaves") {
  story cluster{sync_spec()};
  cluster.join({0});
  cluster.join({1, 2});
  CHECK(cluster.leave(0) == "release 1 2");
  CHECK(cluster.now() == "sync v=0 members=1:1:0,2:1:0 gradients=");
}

TEST_CASE("sync lets a member that pulls go on in the same step") {
  story cluster{sync_spec()};
  cluster.join({0, 1});
  cluster.push(1);
  CHECK(cluster.pull(0) == "release 0");
  CHECK(cluster.push(0) == "update 0 1, release 0 1");
}

// -- backup -------------------------------------------------------------------

TEST_CASE("backup drops the gradients that come after the close") {
  story cluster{backup_spec(3, 1)};
  cluster.join({0, 1, 2});
  CHECK(cluster.push(2) == "");
  CHECK(cluster.push(0) == "update 0 2, release 0 2");
  CHECK(cluster.push(0) == "");
  CHECK(cluster.push(1) == "drop 1, release 1");
  CHECK(cluster.push(1) == "update 0 1, release 0 1");
}

TEST_CASE("backup lets a worker that is late each time begin with the others") {
  story cluster{backup_spec(3, 1)};
  cluster.join({0, 1, 2});
  // 0 and 1 begin together; 2 comes each time in the middle of their next step.
  auto step = [&] {
    cluster.push(0);
    return cluster.push(1);
  };
  for (int late = 1; late <= 3; ++late) {
    CHECK(step() == "update 0 1, release 0 1");
    CHECK(cluster.push(2) == "drop 2, release 2");
  }
  CHECK(step() == "update 0 1, release 0 1, cancel 2");
  CHECK(cluster.pull(2) == "release 2");
  cluster.push(0);
  CHECK(cluster.push(2) == "update 0 2, release 0 2");
  // Once in phase it is as any other.
  CHECK(cluster.push(1) == "drop 1, release 1");
  cluster.push(2);
  CHECK(cluster.push(0) == "update 0 2, release 0 2");
}

TEST_CASE("backup decides as before for the event log of an older run") {
  auto spec = backup_spec(3, 1);
  spec.rules = policies::first_rules;
  story cluster{spec};
  cluster.join({0, 1, 2});
  for (int late = 1; late <= 9; ++late) {
    cluster.push(0);
    cluster.push(1);
    CHECK(cluster.push(2) == "drop 2, release 2");
  }
}

TEST_CASE("backup cancels those that still compute at the close") {
  story cluster{backup_spec(4, 2, "cancel")};
  cluster.join({0, 1, 2, 3});
  CHECK(cluster.push(2) == "");
  CHECK(cluster.push(1) == "update 1 2, release 1 2, cancel 0 3");
  CHECK(cluster.pull(3) == "release 3");
  CHECK(cluster.push(3) == "");
  // 0 has not stopped yet: it is not told again.
  CHECK(cluster.push(2) == "update 2 3, release 2 3, cancel 1");
  // Its gradient crosses the cancellation.
  CHECK(cluster.push(0) == "drop 0, release 0");
}

TEST_CASE("a dead worker uses up a backup") {
  story cluster{backup_spec(4, 1)};
  cluster.join({0, 1, 2, 3});
  CHECK(cluster.leave(3) == "");
  cluster.push(0);
  cluster.push(1);
  CHECK(cluster.push(2) == "update 0 1 2, release 0 1 2");
  SECTION("and with more dead than backups, all others are awaited") {
    CHECK(cluster.leave(2) == "");
    CHECK(cluster.push(0) == "");
    CHECK(cluster.push(1) == "update 0 1, release 0 1");
  }
}

TEST_CASE("backup closes when the last computing member leaves") {
  story cluster{backup_spec(4, 1)};
  cluster.join({0, 1, 2});
  cluster.push(0);
  CHECK(cluster.leave(1) == "");
  CHECK(cluster.leave(2) == "update 0, release 0");
}

TEST_CASE("backup waits for a straggler that it needs") {
  story cluster{backup_spec(3, 1)};
  cluster.join({0, 1, 2});
  cluster.push(0);
  cluster.push(1); // 2 straggles
  CHECK(cluster.leave(1) == "");
  CHECK(cluster.push(0) == "");
  CHECK(cluster.push(2) == "drop 2, release 2");
  CHECK(cluster.push(2) == "update 0 2, release 0 2");
}

TEST_CASE("backup keeps a gradient of a member that left, as one of N-b") {
  story cluster{backup_spec(4, 1)};
  cluster.join({0, 1, 2, 3});
  cluster.push(0);
  CHECK(cluster.leave(0) == "");
  CHECK(cluster.join({0}) == "");
  cluster.push(1);
  CHECK(cluster.push(2) == "update 0 1 2, release 0 1 2");
}

TEST_CASE("backup takes members beyond N for further backups") {
  story cluster{backup_spec(2, 1)};
  cluster.join({0, 1, 2});
  CHECK(cluster.push(2) == "update 2, release 2");
}

TEST_CASE("backup needs fewer backups than workers") {
  CHECK_THROWS_AS(policies::make_policy(backup_spec(4, 4)), usage_error);
  CHECK_NOTHROW(policies::make_policy(backup_spec(4, 3)));
}

// -- ssp ----------------------------------------------------------------------

TEST_CASE("ssp holds a worker that is more than s clocks ahead") {
  story cluster{ssp_spec(1)};
  CHECK(cluster.join({0, 1}) == "release 0 1");
  CHECK(cluster.push(0) == "update 0, release 0");
  CHECK(cluster.push(0) == "update 0");
  CHECK(cluster.now() == "ssp s=1 v=2 clocks=0:2,1:0 held=0");
  CHECK(cluster.push(1) == "update 1, release 0 1");
  CHECK(cluster.now() == "ssp s=1 v=3 clocks=0:2,1:1 held=");
}

TEST_CASE("ssp with s = 0 waits like sync but applies on arrival") {
  story cluster{ssp_spec(0)};
  cluster.join({0, 1, 2});
  CHECK(cluster.push(2) == "update 2");
  CHECK(cluster.push(0) == "update 0");
  CHECK(cluster.push(1) == "update 1, release 0 1 2");
}

TEST_CASE("ssp releases others when the slowest member leaves") {
  story cluster{ssp_spec(0)};
  cluster.join({0, 1, 2});
  cluster.push(0);
  cluster.push(1);
  CHECK(cluster.leave(2) == "release 0 1");
}

TEST_CASE("ssp starts a joiner at the slowest clock") {
  story cluster{ssp_spec(2)};
  cluster.join({0, 1});
  for (int i = 0; i < 4; ++i) {
    cluster.push(0);
    cluster.push(1);
  }
  cluster.push(0);
  CHECK(cluster.join({2, 3}) == "release 2 3");
  CHECK(cluster.now() == "ssp s=2 v=9 clocks=0:5,1:4,2:4,3:4 held=");
  cluster.leave(0);
  cluster.leave(1);
  cluster.leave(2);
  cluster.leave(3);
  cluster.join({5});
  CHECK(cluster.now() == "ssp s=2 v=9 clocks=5:0 held=");
}

TEST_CASE("ssp lets a member that pulls go on with the same clock") {
  story cluster{ssp_spec(0)};
  cluster.join({0, 1});
  cluster.push(0);
  CHECK(cluster.pull(1) == "release 1");
  CHECK(cluster.now() == "ssp s=0 v=1 clocks=0:1,1:0 held=0");
}

TEST_CASE("the bound of ssp is (2s+1)(n-1) and does not overflow") {
  auto bound = [](uint32_t staleness, uint64_t members) {
    return config::find_policy("ssp").staleness(ssp_spec(staleness).parameters,
                                                members);
  };
  CHECK(bound(3, 16) == 7 * 15);
  CHECK(bound(3, 1) == 0);
  CHECK(bound(3, 0) == 0);
  auto max = std::numeric_limits<uint32_t>::max();
  CHECK(bound(max, max) == std::numeric_limits<uint64_t>::max());
}

// -- async --------------------------------------------------------------------

TEST_CASE("async applies every gradient at once and nobody waits") {
  story cluster{policies::read_spec("async", 3)};
  CHECK(cluster.join({0, 1}) == "release 0 1");
  CHECK(cluster.push(1) == "update 1, release 1");
  CHECK(cluster.push(1) == "update 1, release 1");
  CHECK(cluster.pull(0) == "release 0");
  CHECK(cluster.push(0) == "update 0, release 0");
  CHECK(cluster.leave(1) == "");
  CHECK(cluster.now() == "async k=1 v=3 members=0 gradients=");
}
