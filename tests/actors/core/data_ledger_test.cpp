#include "actors/core/data_ledger.hpp"
#include "tests/support/members.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <random>
#include <stdexcept>

using namespace troupe;
using namespace troupe::cores;
using namespace troupe::test;

namespace {

/// The positions of a lease, for example `part 1 e0 [8,16)`.
std::string part_text(const lease& x) {
  return "part " + std::to_string(x.part) + " e" + std::to_string(x.epoch) +
         " [" + std::to_string(x.first) + "," +
         std::to_string(x.first + x.count) + ")";
}

/// Shares of `samples` for so many ranks, all of which are there.
data_ledger shares_of(uint64_t samples, uint32_t workers, uint64_t batch,
                      bool drop_last = false) {
  data_ledger result{workers, batch};
  for (worker_id who{0}; who.value < workers; who = who.next()) {
    result.own(who, {samples_of_part(samples, workers, drop_last), 0});
    result.enter(who);
  }
  return result;
}

/// Parts of these sizes, whose ranks are there.
data_ledger parts_of(const std::vector<uint64_t>& sizes, uint64_t batch) {
  data_ledger result{static_cast<uint32_t>(sizes.size()), batch};
  for (uint32_t i = 0; i < sizes.size(); ++i) {
    result.own(worker_id{i}, {sizes[i], 7 + i});
    result.enter(worker_id{i});
  }
  return result;
}

void work(data_ledger& ledger, worker_id who, int leases) {
  for (int i = 0; i < leases; ++i)
    ledger.settle(ledger.grant(who).value().id);
}

/// A cluster that plays at random, and how often each place in each epoch was
/// settled.
class random_cluster {
public:
  random_cluster(uint64_t seed, uint64_t samples, uint32_t workers,
                 uint64_t batch, std::optional<bool> parted_drop_last)
    : random_(seed), samples_(samples), workers_(workers),
      parted_(parted_drop_last.has_value()),
      share_(parted_ ? samples_of_part(samples, workers, *parted_drop_last)
                     : samples),
      ledger_(parted_ ? shares_of(samples, workers, batch, *parted_drop_last)
                      : data_ledger{lease_ledger{samples, batch}}),
      here_(workers, true) {
    // nop
  }

  /// One event; members join or leave only if `moving`.
  void play(bool moving) {
    auto dice = below(100);
    worker_id who{static_cast<uint32_t>(below(workers_))};
    if (moving && dice < 3)
      move(who);
    else if (moving && dice < 5)
      restart();
    else if (!here_[who.value])
      return;
    else if (dice < 15)
      give_back(who);
    else if (out_[who].size() < 2)
      out_[who].push_back(ledger_.grant(who).value());
    else
      settle_lease(who);
    if (ledger_.settled() != settled_)
      FAIL("settled " << ledger_.settled() << " instead of " << settled_);
  }

  void bring_back() {
    for (uint32_t i = 0; i < workers_; ++i)
      if (!here_[i])
        move(worker_id{i});
  }

  /// How often the samples of an epoch's order were settled, by position.
  std::vector<int> counts(uint64_t epoch) const {
    std::vector<int> result(samples_);
    for (const auto& [place, times] : counts_)
      if (place.epoch == epoch)
        result[order_of(place)] += times;
    return result;
  }

  /// Places of an epoch that were never settled.
  uint64_t missing(uint64_t epoch) const {
    auto all = parted_ ? share_ * workers_ : samples_;
    for (const auto& [place, times] : counts_)
      all -= place.epoch == epoch ? 1 : 0;
    return all;
  }

  /// So often was a sample due in an epoch.
  std::vector<int> expected() const {
    std::vector<int> result(samples_, parted_ ? 0 : 1);
    if (parted_)
      for (uint64_t i = 0; i < share_ * workers_; ++i)
        ++result[i % samples_];
    return result;
  }

  const data_ledger& ledger() const { return ledger_; }

private:
  struct place {
    uint64_t epoch;
    uint32_t part;
    uint64_t position;

    auto operator<=>(const place&) const = default;
  };

  uint64_t below(uint64_t n) { return random_() % n; }

  /// The place of a sample in the data: rank r has every N-th from r on.
  uint64_t order_of(const place& x) const {
    return parted_ ? (x.part + x.position * workers_) % samples_ : x.position;
  }

  lease take_lease(worker_id who) {
    auto& its = out_[who];
    auto at = its.begin() + static_cast<ptrdiff_t>(below(its.size()));
    auto result = *at;
    its.erase(at);
    return result;
  }

  void settle_lease(worker_id who) {
    auto x = take_lease(who);
    if ((parted_ && x.part != who.value) || !ledger_.settle(x.id))
      FAIL("worker " << who.value << " cannot settle " << part_text(x));
    for (auto p = x.first; p < x.first + x.count; ++p)
      if (++counts_[{x.epoch, x.part, p}] != 1)
        FAIL("settled twice: position " << p << " of " << part_text(x));
    settled_ += x.count;
  }

  void give_back(worker_id who) {
    if (!out_[who].empty())
      REQUIRE(ledger_.give_back(take_lease(who).id));
  }

  void move(worker_id who) {
    while (!out_[who].empty())
      give_back(who);
    here_[who.value].flip();
    if (here_[who.value])
      ledger_.enter(who);
    else
      ledger_.leave(who);
  }

  /// The server goes on from a checkpoint of this moment.
  void restart() {
    out_.clear();
    if (parted_) {
      auto state = ledger_.snapshot_of_parts();
      ledger_ = data_ledger::restore(state, 1 + below(20)).value();
      REQUIRE(ledger_.snapshot_of_parts() == state);
    } else {
      ledger_ =
        lease_ledger::restore(samples_, 1 + below(20), ledger_.snapshot())
          .value();
    }
    for (uint32_t i = 0; i < workers_; ++i)
      if (here_[i])
        ledger_.enter(worker_id{i});
  }

  std::mt19937_64 random_;
  uint64_t samples_;
  uint32_t workers_;
  bool parted_;
  uint64_t share_;
  data_ledger ledger_;
  std::vector<bool> here_;
  std::map<worker_id, std::vector<lease>> out_;
  std::map<place, int> counts_;
  uint64_t settled_ = 0;
};

} // namespace

TEST_CASE("shares have one size: filled up, or the rest cut off") {
  CHECK(samples_of_part(10, 4, false) == 3);
  CHECK(samples_of_part(10, 4, true) == 2);
  CHECK(samples_of_part(12, 4, false) == 3);
  CHECK(samples_of_part(12, 4, true) == 3);
  CHECK(samples_of_part(1437, 4, false) == 360);
  CHECK(samples_of_part(3, 7, false) == 1);
  CHECK(samples_of_part(3, 7, true) == 0);
  CHECK(samples_of_part(5, 1, false) == 5);
  CHECK(samples_of_part(endless, 3, false) == endless);
}

TEST_CASE("each rank gets its own part, epoch by epoch") {
  auto ledger = shares_of(10, 2, 4);
  auto first = ledger.grant(w0).value();
  CHECK(part_text(first) == "part 0 e0 [0,4)");
  CHECK(part_text(ledger.grant(w1).value()) == "part 1 e0 [0,4)");
  CHECK(part_text(ledger.grant(w0).value()) == "part 0 e0 [4,5)");
  CHECK(part_text(ledger.grant(w0).value()) == "part 0 e1 [0,4)");
  auto second = ledger.grant(w1).value();
  CHECK(part_text(second) == "part 1 e0 [4,5)");
  CHECK(first.id != second.id);
  CHECK(*ledger.find(second.id) == second);
  CHECK(ledger.outstanding() == 5);
  CHECK(ledger.samples() == 10);
}

TEST_CASE("what a rank gives back it gets again, and nobody else") {
  auto ledger = shares_of(16, 2, 4);
  auto back = ledger.grant(w0).value();
  ledger.give_back(back.id);
  ledger.leave(w0);
  CHECK(part_text(ledger.grant(w1).value()) == "part 1 e0 [0,4)");
  CHECK(part_text(ledger.grant(w1).value()) == "part 1 e0 [4,8)");
  CHECK(part_text(ledger.grant(w1).value()) == "part 1 e1 [0,4)");
  ledger.enter(w0);
  CHECK(part_text(ledger.grant(w0).value()) == "part 0 e0 [0,4)");
}

TEST_CASE("an epoch is complete when all ranks have done their parts") {
  auto ledger = parts_of({4, 12}, 4);
  work(ledger, w0, 2);
  CHECK(ledger.epochs_completed() == 0);
  work(ledger, w1, 2);
  CHECK(ledger.epochs_completed() == 0);
  work(ledger, w1, 1);
  CHECK(ledger.epochs_completed() == 1);
  CHECK(ledger.settled() == 20);
  CHECK(ledger.left_out() == 0);
}

TEST_CASE("what a rank that is gone has not done is left out, and counted") {
  auto ledger = parts_of({8, 8}, 4);
  work(ledger, w1, 1);
  ledger.leave(w1);
  work(ledger, w0, 1);
  CHECK(ledger.left_out() == 0);
  work(ledger, w0, 1);
  CHECK(ledger.epochs_completed() == 1);
  CHECK(ledger.left_out() == 4);
  work(ledger, w0, 2);
  CHECK(ledger.epochs_completed() == 2);
  CHECK(ledger.left_out() == 12);
  ledger.enter(w1);
  CHECK(part_text(ledger.grant(w1).value()) == "part 1 e2 [0,4)");
  CHECK(ledger.settled() == 20);
}

TEST_CASE("a rank that comes back in time loses nothing") {
  auto ledger = parts_of({8, 8}, 4);
  work(ledger, w1, 1);
  ledger.leave(w1);
  work(ledger, w0, 1);
  ledger.enter(w1);
  work(ledger, w0, 4);
  CHECK(ledger.epochs_completed() == 0);
  work(ledger, w1, 1);
  CHECK(ledger.epochs_completed() == 1);
  CHECK(ledger.left_out() == 0);
}

TEST_CASE("a gradient that outlives its worker keeps the epoch open") {
  auto ledger = parts_of({4, 8}, 4);
  auto held = ledger.grant(w1).value();
  ledger.leave(w1);
  work(ledger, w0, 2);
  CHECK(ledger.epochs_completed() == 0);
  CHECK(ledger.settle(held.id));
  work(ledger, w0, 1);
  CHECK(ledger.epochs_completed() == 3);
  CHECK(ledger.left_out() == 4 + 8 + 8);
}

TEST_CASE("when all are gone nothing is left out") {
  auto ledger = parts_of({4, 4}, 4);
  auto held = ledger.grant(w0).value();
  ledger.leave(w0);
  ledger.leave(w1);
  CHECK(ledger.settle(held.id));
  CHECK(ledger.epochs_completed() == 0);
  CHECK(ledger.left_out() == 0);
}

TEST_CASE("samples of a late gradient are left out with parts, else not") {
  auto parts = parts_of({8, 8}, 4);
  CHECK(parts.give_up(parts.grant(w0).value().id));
  CHECK(part_text(parts.grant(w0).value()) == "part 0 e0 [4,8)");
  CHECK(parts.left_out() == 4);
  CHECK(!parts.give_up(lease_id{99}));
  data_ledger pool{lease_ledger{8, 4}};
  CHECK(pool.give_up(pool.grant(w0).value().id));
  CHECK(part_text(pool.grant(w1).value()) == "part 0 e0 [0,4)");
  CHECK(pool.left_out() == 0);
}

TEST_CASE("a part whose rank comes late begins with the others' epoch") {
  data_ledger ledger{3, 4};
  CHECK(ledger.own(w0, {4, 1}));
  CHECK(ledger.samples() == 4);
  ledger.enter(w0);
  work(ledger, w0, 2);
  CHECK(ledger.epochs_completed() == 2);
  CHECK(ledger.own(w2, {8, 2}));
  ledger.enter(w2);
  CHECK(part_text(ledger.grant(w2).value()) == "part 2 e2 [0,4)");
  CHECK(ledger.samples() == 12);
  CHECK(ledger.left_out() == 16);
}

TEST_CASE("a rank keeps its data") {
  auto ledger = parts_of({4, 4}, 4);
  CHECK(ledger.own(w0, {4, 7}));
  CHECK(!ledger.own(w0, {5, 7}));
  CHECK(!ledger.own(w0, {4, 8}));
}

TEST_CASE("a lease that nobody has is neither settled nor given back") {
  auto ledger = parts_of({4, 4}, 4);
  for (uint64_t id : {0, 1, 2, 17})
    CHECK((!ledger.settle(lease_id{id}) && !ledger.give_back(lease_id{id}) &&
           ledger.find(lease_id{id}) == nullptr));
}

TEST_CASE("parts that cannot be are not taken up") {
  auto ledger = parts_of({4, 8}, 4);
  work(ledger, w0, 1);
  auto state = ledger.snapshot_of_parts();
  CHECK(data_ledger::restore(state, 4));
  auto damaged = state;
  damaged.parts[0]->data.samples = 0;
  CHECK(!data_ledger::restore(damaged, 4));
  damaged = state;
  damaged.parts[1]->ledger.epochs.push_back({0, {{6, 3}}});
  damaged.parts[1]->ledger.next_epoch = 1;
  CHECK(!data_ledger::restore(damaged, 4));
  damaged = state;
  damaged.parts[0]->ledger.left_out = 5;
  CHECK(!data_ledger::restore(damaged, 4));
  CHECK(!data_ledger::restore({}, 4));
  CHECK_THROWS_AS((data_ledger{0, 1}), std::invalid_argument);
  CHECK_THROWS_AS((data_ledger{1, 0}), std::invalid_argument);
}

TEST_CASE("each sample is settled once an epoch while all are there") {
  auto workers = GENERATE(1u, 2u, 3u, 4u, 7u, 8u);
  for (uint64_t seed = 0; seed < 20; ++seed)
    for (std::optional<bool> drop_last :
         {std::optional<bool>{}, std::optional{false}, std::optional{true}}) {
      INFO("seed " << seed << ", " << workers << " workers, "
                   << (!drop_last   ? "leased"
                       : *drop_last ? "static, drop-last"
                                    : "static"));
      random_cluster cluster{seed, 40 + seed % 13, workers, 1 + seed % 9,
                             drop_last};
      for (int i = 0; i < 200'000 && cluster.ledger().epochs_completed() < 4;
           ++i)
        cluster.play(false);
      REQUIRE(cluster.ledger().epochs_completed() >= 4);
      for (uint64_t epoch = 0; epoch < 4; ++epoch)
        REQUIRE(cluster.counts(epoch) == cluster.expected());
      REQUIRE(cluster.ledger().left_out() == 0);
    }
}

// If samples are leased, nothing changes. If they are divided among ranks, each
// counts at most once, and the samples that a complete epoch lacks are those
// that the ledger counts as left out.
TEST_CASE("workers that leave and come back never make a sample count twice") {
  auto workers = GENERATE(1u, 2u, 3u, 4u, 7u, 8u);
  uint64_t left_out = 0;
  for (uint64_t seed = 0; seed < 20; ++seed)
    for (std::optional<bool> drop_last :
         {std::optional<bool>{}, std::optional{false}, std::optional{true}}) {
      INFO("seed " << seed << ", " << workers << " workers");
      random_cluster cluster{seed, 40 + seed % 13, workers, 1 + seed % 9,
                             drop_last};
      for (int i = 0; i < 3000; ++i)
        cluster.play(true);
      cluster.bring_back();
      auto until = cluster.ledger().epochs_completed() + 2;
      for (int i = 0;
           i < 200'000 && cluster.ledger().epochs_completed() < until; ++i)
        cluster.play(false);
      REQUIRE(cluster.ledger().epochs_completed() >= until);
      uint64_t missing = 0;
      for (uint64_t epoch = 0; epoch < until; ++epoch) {
        missing += cluster.missing(epoch);
        if (!drop_last)
          REQUIRE(cluster.counts(epoch) == cluster.expected());
      }
      REQUIRE(cluster.ledger().left_out() == missing);
      left_out += missing;
      // All ranks are there again, so the last epoch is complete.
      REQUIRE(cluster.counts(until - 1) == cluster.expected());
    }
  CHECK(((left_out > 0) == (workers > 1)));
}
