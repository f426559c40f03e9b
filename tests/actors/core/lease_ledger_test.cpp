#include "actors/core/lease_ledger.hpp"
#include "tests/support/members.hpp"

#include <catch2/catch_test_macros.hpp>

#include <limits>
#include <random>
#include <stdexcept>

using namespace troupe;
using namespace troupe::cores;
using namespace troupe::test;

namespace {

/// The positions of a lease, for example `e0 [64,96)`.
std::string text(const lease& x) {
  return "e" + std::to_string(x.epoch) + " [" + std::to_string(x.first) + "," +
         std::to_string(x.first + x.count) + ")";
}

} // namespace

TEST_CASE("an epoch is dealt out in batches, the last one short") {
  lease_ledger ledger{100, 40};
  auto first = ledger.grant(w0).value();
  auto second = ledger.grant(w1).value();
  auto third = ledger.grant(w0).value();
  CHECK(text(first) == "e0 [0,40)");
  CHECK(text(second) == "e0 [40,80)");
  CHECK(text(third) == "e0 [80,100)");
  CHECK(first.id != second.id);
  CHECK(ledger.outstanding() == 3);
}

TEST_CASE("nobody waits for a lease: the next epoch begins") {
  lease_ledger ledger{10, 10};
  auto first = ledger.grant(w0).value();
  CHECK(text(ledger.grant(w1).value()) == "e1 [0,10)");
  CHECK(ledger.epochs_completed() == 0);
  CHECK(ledger.settle(first.id));
  CHECK(ledger.epochs_completed() == 1);
  CHECK(ledger.epochs() == 1.0);
}

TEST_CASE("what is given back goes first, the oldest epoch before all") {
  lease_ledger ledger{20, 10};
  auto first = ledger.grant(w0).value();
  auto second = ledger.grant(w0).value();
  auto third = ledger.grant(w0).value();
  CHECK(text(third) == "e1 [0,10)");
  CHECK(ledger.give_back(third.id));
  CHECK(ledger.give_back(second.id));
  CHECK(text(ledger.grant(w1).value()) == "e0 [10,20)");
  CHECK(text(ledger.grant(w1).value()) == "e1 [0,10)");
  CHECK(ledger.give_back(first.id));
  CHECK(text(ledger.grant(w1).value()) == "e0 [0,10)");
}

TEST_CASE("a lease is settled or given back once") {
  lease_ledger ledger{20, 10};
  auto first = ledger.grant(w0).value();
  CHECK(*ledger.find(first.id) == first);
  CHECK(ledger.settle(first.id));
  CHECK(!ledger.settle(first.id));
  CHECK(!ledger.give_back(first.id));
  CHECK(ledger.find(first.id) == nullptr);
  CHECK(!ledger.settle(lease_id{0}));
  CHECK(ledger.settled() == 10);
  CHECK(ledger.epochs() == 0.5);
}

TEST_CASE("a worker that left gives back all but what is to be kept") {
  lease_ledger ledger{100, 10};
  auto held = ledger.grant(w0).value();
  auto other = ledger.grant(w1).value();
  auto next = ledger.grant(w0).value();
  auto after = ledger.grant(w0).value();
  auto returned = ledger.give_back_all(w0, std::vector{held.id});
  CHECK(returned == std::vector{next, after});
  CHECK(ledger.find(held.id) != nullptr);
  CHECK(ledger.find(other.id) != nullptr);
  CHECK(ledger.settle(held.id));
  CHECK(ledger.give_back_all(w0).empty());
  CHECK(text(ledger.grant(w1).value()) == "e0 [20,30)");
}

TEST_CASE("epochs count as complete without a gap") {
  lease_ledger ledger{10, 10};
  auto slow = ledger.grant(w0).value();
  for (int i = 0; i < 3; ++i)
    ledger.settle(ledger.grant(w1).value().id);
  CHECK(ledger.epochs_completed() == 0);
  CHECK(ledger.epochs() == 3.0);
  auto state = ledger.snapshot();
  CHECK(state.next_epoch == 4);
  CHECK(state.epochs == std::vector<ledger_state::open_epoch>{{0, {{0, 10}}}});
  ledger.settle(slow.id);
  CHECK(ledger.epochs_completed() == 4);
}

TEST_CASE("a ledger is taken up with another batch size") {
  lease_ledger ledger{100, 10};
  ledger.grant(w0).value();
  auto second = ledger.grant(w0).value();
  ledger.grant(w0).value();
  ledger.settle(second.id);
  auto state = ledger.snapshot();
  REQUIRE(state.epochs.size() == 1);
  CHECK(state.epochs[0].unsettled ==
        std::vector<sample_range>{{0, 10}, {20, 80}});
  auto resumed = lease_ledger::restore(100, 32, state);
  REQUIRE(resumed);
  CHECK(resumed->settled() == 10);
  CHECK(text(resumed->grant(w0).value()) == "e0 [0,10)");
  CHECK(text(resumed->grant(w0).value()) == "e0 [20,52)");
  CHECK(resumed->snapshot() == state);
}

TEST_CASE("a state that does not fit the data set is refused") {
  auto refused = [](std::vector<ledger_state::open_epoch> epochs) {
    return !lease_ledger::restore(100, 10, {epochs, 2});
  };
  CHECK(!refused({}));
  CHECK(!refused({{0, {{0, 10}, {10, 90}}}, {1, {{99, 1}}}}));
  CHECK(refused({{2, {{0, 10}}}}));
  CHECK(refused({{0, {}}}));
  CHECK(refused({{0, {{0, 0}}}}));
  CHECK(refused({{0, {{91, 10}}}}));
  CHECK(refused({{0, {{100, 1}}}}));
  CHECK(refused({{0, {{5, 10}, {0, 10}}}}));
  CHECK(refused({{0, {{0, 10}}}, {0, {{20, 10}}}}));
  CHECK(refused({{0, {{50, std::numeric_limits<uint64_t>::max()}}}}));
}

TEST_CASE("an endless epoch never ends") {
  constexpr auto endless = std::numeric_limits<uint64_t>::max();
  lease_ledger ledger{endless, 64};
  for (int i = 0; i < 1000; ++i)
    ledger.settle(ledger.grant(w0).value().id);
  CHECK(ledger.settled() == 64'000);
  CHECK(ledger.epochs_completed() == 0);
  auto state = ledger.snapshot();
  CHECK(state.epochs[0].unsettled ==
        std::vector<sample_range>{{64'000, endless - 64'000}});
  CHECK(lease_ledger::restore(endless, 64, state)->settled() == 64'000);
}

TEST_CASE("a ledger needs samples and a batch size") {
  CHECK_THROWS_AS((lease_ledger{0, 1}), std::invalid_argument);
  CHECK_THROWS_AS((lease_ledger{1, 0}), std::invalid_argument);
}

TEST_CASE("in any history each sample is settled once per epoch") {
  for (uint64_t seed = 0; seed < 100; ++seed) {
    INFO("seed " << seed);
    std::mt19937_64 random{seed};
    auto below = [&](uint64_t n) {
      return random() % n;
    };
    auto samples = 1 + below(200);
    lease_ledger ledger{samples, 1 + below(40)};
    std::vector<std::pair<worker_id, lease>> out;
    std::vector<std::vector<int>> settled; // epoch, position -> how often
    uint64_t total = 0;
    for (int i = 0; i < 600; ++i) {
      auto dice = below(100);
      if (out.empty() || dice < 40) {
        worker_id who{static_cast<uint32_t>(below(6))};
        out.emplace_back(who, ledger.grant(who).value());
      } else if (dice < 75) {
        auto at = out.begin() + static_cast<ptrdiff_t>(below(out.size()));
        auto x = at->second;
        out.erase(at);
        REQUIRE(ledger.settle(x.id));
        settled.resize(std::max<size_t>(settled.size(), x.epoch + 1),
                       std::vector<int>(samples));
        for (auto p = x.first; p < x.first + x.count; ++p)
          REQUIRE(++settled[x.epoch][p] == 1);
        total += x.count;
      } else if (dice < 90) {
        auto at = out.begin() + static_cast<ptrdiff_t>(below(out.size()));
        REQUIRE(ledger.give_back(at->second.id));
        out.erase(at);
      } else if (dice < 96) {
        worker_id who{static_cast<uint32_t>(below(6))};
        auto returned = ledger.give_back_all(who);
        auto gone = std::erase_if(out, [=](auto& x) { return x.first == who; });
        REQUIRE(returned.size() == gone);
      } else {
        auto state = ledger.snapshot();
        ledger = *lease_ledger::restore(samples, 1 + below(40), state);
        REQUIRE(ledger.snapshot() == state);
        out.clear();
      }
      REQUIRE(ledger.settled() == total);
      REQUIRE(ledger.outstanding() == out.size());
    }
    for (size_t epoch = 0; epoch < ledger.epochs_completed(); ++epoch)
      REQUIRE(settled.at(epoch) == std::vector<int>(samples, 1));
  }
}

TEST_CASE("a large cluster costs little") {
  lease_ledger ledger{60'000, 64};
  std::vector<lease_id> last;
  for (uint32_t who = 0; who < 10'000; ++who)
    last.push_back(ledger.grant(worker_id{who}).value().id);
  for (int step = 0; step < 10; ++step)
    for (uint32_t who = 0; who < 10'000; ++who) {
      ledger.settle(last[who]);
      last[who] = ledger.grant(worker_id{who}).value().id;
    }
  CHECK(ledger.outstanding() == 10'000);
}
