#include "actors/recording/peer_names.hpp"

#include <caf/node_id.hpp>
#include <catch2/catch_test_macros.hpp>

using namespace troupe;
using troupe::recording::peer_names;

namespace {

caf::node_id process_numbered(uint32_t pid) {
  return caf::make_node_id(pid, std::string(40, 'a')).value();
}

} // namespace

TEST_CASE("a worker has the host and the process that said hello") {
  peer_names names;
  auto first = process_numbered(1), second = process_numbered(2);
  names.said(first, "node-a/4711");
  names.said(second, "node-b/4712");
  names.seated(worker_id{1}, first);
  names.seated(worker_id{0}, second);
  CHECK(names.of(worker_id{1}) == "node-a, pid 4711");
  CHECK(names.of(worker_id{0}) == "node-b, pid 4712");
  CHECK(names.of(worker_id{2}).empty());
  CHECK(names.process_of(worker_id{0})->host == "node-b");
  CHECK(names.process_of(worker_id{0})->pid == 4712);
  CHECK_FALSE(names.process_of(worker_id{2}));
}

TEST_CASE("a place that another process takes has that one's name") {
  peer_names names;
  auto first = process_numbered(1), second = process_numbered(2);
  names.said(first, "node-a/1");
  names.seated(worker_id{0}, first);
  names.said(second, "node-a/2");
  names.seated(worker_id{0}, second);
  CHECK(names.of(worker_id{0}) == "node-a, pid 2");
  // It comes back without a name.
  names.seated(worker_id{0}, second);
  CHECK(names.of(worker_id{0}).empty());
}

TEST_CASE("what a stranger says of itself is shown safely") {
  peer_names names;
  auto process = process_numbered(1);
  names.said(process, "a\nb");
  names.seated(worker_id{0}, process);
  CHECK(names.of(worker_id{0}).find('\n') == std::string::npos);
  for (uint32_t pid = 2; pid < 20'000; ++pid)
    names.said(process_numbered(pid), "x/1");
  names.seated(worker_id{1}, process_numbered(19'999));
  CHECK(names.of(worker_id{1}) == "x, pid 1");
}
