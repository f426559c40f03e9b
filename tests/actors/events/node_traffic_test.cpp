#include "actors/events/node_traffic.hpp"
#include "tests/support/members.hpp"

#include <catch2/catch_test_macros.hpp>

using namespace troupe;
using namespace troupe::test;

namespace {

constexpr worker_id late_worker{2};

event at(uint64_t newest, input cause) {
  event out;
  out.what = std::move(cause);
  out.newest = version{newest};
  return out;
}

event begin(uint64_t newest) {
  return at(newest, inputs::started{life_number{1}});
}

/// A gradient of so many bytes at the lead, and who is answered for it.
event push(uint64_t newest, worker_id who, uint64_t bytes,
           const std::vector<worker_id>& answers) {
  inputs::arrived what;
  what.header.id.worker = who;
  what.bytes = bytes;
  auto out = at(newest, what);
  for (auto other : answers)
    out.decided.release.push_back({other, {}});
  return out;
}

using bytes = std::vector<double>;

} // namespace

TEST_CASE("a worker sends its gradients and gets weights") {
  node_traffic x{{1000, 1000, {}}, 2};
  x.on_event(begin(5));
  CHECK_FALSE(x.per_step());
  x.on_event(push(6, w0, 1000, {w0}));
  x.on_event(push(7, w1, 1000, {w1}));
  x.on_event(push(8, w0, 1000, {w0}));
  x.on_event(push(9, w0, 1000, {}));
  auto found = x.per_step();
  REQUIRE(found);
  CHECK(found->sent == bytes{750, 250});
  CHECK(found->received == bytes{500, 250});
}

TEST_CASE("a worker that goes on with a fragment gets that one alone") {
  node_traffic x{{1000, 1000, {}, {100, 300, 600}}, 1};
  x.on_event(begin(0));
  for (uint32_t step = 1; step <= 4; ++step) { // 1000, 100, 300, 600
    auto next = push(step, w0, 200, {w0});
    next.decided.release[0].turn = {(step - 1) % 3, step > 1};
    x.on_event(next);
  }
  auto found = x.per_step();
  REQUIRE(found);
  CHECK(found->sent == bytes{200});
  CHECK(found->received == bytes{500});
}

TEST_CASE("what stays on the node of a peer does not count") {
  node_traffic x{{1000, 400, {400, 350, 250}}, 3};
  x.on_event(begin(0));
  // A synchronous step; the lead has 400 bytes of each gradient.
  x.on_event(push(0, w0, 400, {}));
  x.on_event(push(0, w1, 400, {}));
  x.on_event(push(1, late_worker, 400, {w0, w1, late_worker}));
  auto found = x.per_step();
  REQUIRE(found);
  // Its gradient to the others' shards, its shard's weights to the others.
  CHECK(found->sent == bytes{600 + 2 * 400, 650 + 2 * 350, 750 + 2 * 250});
  CHECK(found->received == found->sent);
}

TEST_CASE(
  "compressed gradients count as they are sent, and a worker beyond the "
  "cluster's size is counted, too") {
  node_traffic x{{1000, 500, {500, 500}}, 2};
  x.on_event(begin(0));
  x.on_event(
    push(1, late_worker, 125, {late_worker})); // A quarter of its bytes.
  auto found = x.per_step();
  REQUIRE(found);
  CHECK(found->sent == bytes{500, 500, 250});
  CHECK(found->received == bytes{125, 125, 1000});
}

TEST_CASE("nothing is sent where there are no weights") {
  node_traffic x{{}, 1};
  x.on_event(begin(0));
  x.on_event(push(1, w0, 0, {w0}));
  CHECK(x.per_step()->sent == bytes{0});
}
