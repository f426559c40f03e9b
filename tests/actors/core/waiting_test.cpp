// For whom, and for how long, others are waited for.

#include "actors/core/expected_workers.hpp"
#include "actors/core/pause_watch.hpp"
#include "actors/core/progress_deadline.hpp"

#include <catch2/catch_test_macros.hpp>

using namespace troupe;
using namespace troupe::cores;

TEST_CASE("a worker that has left may come again, unless it has failed") {
  expected_workers uut{0};
  CHECK(uut.none());
  for (auto how : {departure::lost, departure::ended}) {
    uut.came(worker_id{3});
    uut.left(worker_id{3}, how);
    CHECK_FALSE(uut.none());
  }
  uut.came(worker_id{3});
  CHECK(uut.none());
  uut.left(worker_id{3}, departure::failed);
  uut.left(worker_id{0}, departure::lost);
  CHECK_FALSE(uut.none());
  uut.left(worker_id{0}, departure::failed);
  CHECK(uut.none());
}

TEST_CASE("a worker beside a shard may come until it has ended") {
  expected_workers uut{2};
  uut.came(worker_id{0});
  uut.left(worker_id{0}, departure::ended);
  CHECK_FALSE(uut.none()); // The other has not come yet.
  uut.came(worker_id{1});
  uut.left(worker_id{1}, departure::lost);
  uut.came(worker_id{2});
  uut.left(worker_id{2}, departure::lost);
  CHECK_FALSE(uut.none());
  uut.left(worker_id{1}, departure::failed);
  CHECK(uut.none()); // Who has joined is not waited for.
}

TEST_CASE("only progress extends a deadline") {
  progress_deadline uut{10, 100};
  CHECK(uut.left(104) == 6);
  CHECK_FALSE(uut.over(109.9));
  CHECK(uut.reached(5, 109));
  CHECK_FALSE(uut.over(118.9));
  CHECK_FALSE(uut.reached(5, 118)); // It is still there.
  CHECK(uut.over(119));
  uut.progress(119);
  CHECK_FALSE(uut.over(119));
}

TEST_CASE(
  "a timer that comes late tells for how long its process stood still") {
  pause_watch uut{4};
  CHECK(uut.tick(4) == 0);
  CHECK(uut.tick(8.75) == 0); // As a busy machine is late.
  CHECK(uut.overdue(12.5) < 0);
  CHECK(uut.tick(12.75) == 0);
  CHECK(uut.overdue(46.75) == 30);
  CHECK(uut.tick(46.75) == 30);
  CHECK(uut.tick(50.75) == 0);
}
