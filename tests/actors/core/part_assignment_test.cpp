#include "actors/core/part_assignment.hpp"

#include <catch2/catch_test_macros.hpp>

#include <set>

using namespace troupe;
using namespace troupe::cores;

namespace {

/// Ranks and who is there; workers differ by the digest of their data.
struct town {
  part_assignment ranks;
  std::set<worker_id> live;

  /// The rank that a worker gets, or the line that it is told.
  std::string come(uint64_t samples, uint64_t digest,
                   std::optional<uint32_t> wish = {}) {
    auto rank = wish ? std::optional{worker_id{*wish}} : std::nullopt;
    auto found =
      ranks.assign_part(rank, {samples, digest},
                        [this](worker_id who) { return live.contains(who); });
    if (auto* no = std::get_if<no_part>(&found))
      return (no->for_good ? "never: " : "later: ") + no->line;
    live.insert(std::get<worker_id>(found));
    return to_string(std::get<worker_id>(found));
  }
};

town of(uint32_t parts, std::map<worker_id, owned_data> known = {}) {
  return {part_assignment{parts, std::move(known)}, {}};
}

} // namespace

TEST_CASE("workers with new data get ranks in the order of coming") {
  auto here = of(3);
  CHECK(here.come(10, 1) == "0");
  CHECK(here.come(20, 2) == "1");
  CHECK(here.come(30, 3) == "2");
  CHECK(here.come(40, 4) == "later: all ranks are taken");
}

TEST_CASE("a worker that comes back finds its rank by its data") {
  auto here = of(3);
  here.come(10, 1);
  here.come(20, 2);
  here.come(30, 3);
  here.live = {};
  CHECK(here.come(20, 2) == "1");
  CHECK(here.come(10, 1) == "0");
  CHECK(here.come(30, 3) == "2");
}

TEST_CASE("after a restart ranks are those that the checkpoint knows") {
  auto here = of(2, {{worker_id{1}, {20, 2}}});
  CHECK(here.come(20, 2) == "1");
  CHECK(here.come(5, 5) == "0");
}

TEST_CASE("a worker with other data than its rank's is told so") {
  auto here = of(2);
  here.come(10, 1);
  here.come(20, 2);
  here.live = {worker_id{0}};
  CHECK(here.come(15, 9) ==
        "never: rank 1 trains on 20 samples of its own, and this worker has 15 "
        "samples: give it the --data-dir of that rank");
  CHECK(here.come(20, 9, 1) ==
        "never: rank 1 trains on 20 samples of its own, and this worker has 20 "
        "samples, which are others: give it the --data-dir of that rank");
  CHECK(here.come(20, 2, 1) == "1");
}

TEST_CASE("a rank that is asked for keeps the data it came with") {
  auto here = of(3);
  CHECK(here.come(10, 1, 2) == "2");
  CHECK(here.come(20, 2) == "0");
  here.live = {};
  CHECK(here.come(10, 1) == "2");
  CHECK(here.come(30, 3, 1) == "1");
}

TEST_CASE("the same data may be there twice") {
  auto here = of(2);
  CHECK(here.come(10, 1) == "0");
  CHECK(here.come(10, 1) == "1");
  CHECK(here.come(10, 1) == "later: all ranks are taken");
}

TEST_CASE("no samples, and ranks that are not there, get one line") {
  auto here = of(2);
  CHECK(here.come(0, 0) == "never: it has no samples of its own for training");
  CHECK(here.come(10, 1, 2) == "never: --rank 2: with --sharding local ranks "
                               "are below 2, the number of workers");
}
