// Random histories over the double: right bits in any order of polling, and no
// hang, leak or silent loss whatever goes wrong.

#include "tests/nccl/check_clean.hpp"
#include "tests/nccl/collective.hpp"

#include <catch2/catch_test_macros.hpp>

#include <thread>

using namespace troupe::transport::nccl;
using fake::check_clean;
using fake::cluster;

namespace {

using phase = communicator::phase;

/// A transfer in which some ranks take part, and its expected result.
struct act {
  std::vector<std::vector<float>> from; ///< By rank.
  std::vector<std::vector<float>> to;
  std::vector<ticket> tickets; ///< 0: takes no part.
  std::vector<std::vector<float>> expected;
};

size_t at(int rank) {
  return static_cast<size_t>(rank);
}

struct history {
  cluster& all;
  std::deque<act> acts; // Addresses stay.
  double deadline = no_deadline;

  int size() const { return static_cast<int>(all.ranks.size()); }

  act& open(size_t count) {
    auto& x = acts.emplace_back();
    x.tickets.resize(all.ranks.size());
    for (int rank = 0; rank < size(); ++rank)
      x.from.push_back(fake::numbers(count, all.random));
    x.to.assign(all.ranks.size(), std::vector<float>(count));
    x.expected = x.to;
    return x;
  }

  /// As a push and a reply: worker to root, and back.
  void pair(size_t count) {
    auto& x = open(count);
    auto w = 1 + static_cast<int>(all.random() % at(size() - 1));
    x.tickets[0] = all[0].submit({send_to(w, x.from[0].data(), count),
                                  receive_from(w, x.to[0].data(), count)},
                                 deadline);
    x.tickets[at(w)] =
      all[w].submit({receive_from(0, x.to[at(w)].data(), count),
                     send_to(0, x.from[at(w)].data(), count)},
                    deadline);
    x.expected[0] = x.from[at(w)];
    x.expected[at(w)] = x.from[0];
  }

  void reduce(size_t count) {
    auto& x = open(count);
    for (int rank = 0; rank < size(); ++rank) {
      auto* to = rank == 0 ? x.to[0].data() : nullptr;
      x.tickets[at(rank)] = all[rank].submit(
        {reduce_to(0, x.from[at(rank)].data(), to, count)}, deadline);
      for (size_t i = 0; i < count; ++i)
        x.expected[0][i] += x.from[at(rank)][i];
    }
  }

  void broadcast(size_t count) {
    auto& x = open(count);
    x.to[0] = x.from[0];
    for (int rank = 0; rank < size(); ++rank) {
      x.tickets[at(rank)] = all[rank].submit(
        {broadcast_from(0, x.to[at(rank)].data(), count)}, deadline);
      x.expected[at(rank)] = x.from[0];
    }
  }

  void add() {
    auto count = 1 + all.random() % 50;
    switch (all.random() % 3) {
    case 0:
      return pair(count);
    case 1:
      return reduce(count);
    default:
      return broadcast(count);
    }
  }

  ticket last_of(size_t rank) const {
    ticket last = 0;
    for (const auto& x : acts)
      last = std::max(last, x.tickets[rank]);
    return last;
  }

  /// Every rank's operations are over, one way or the other.
  bool over() {
    for (int rank = 0; rank < size(); ++rank)
      if (!all.away.contains(rank))
        for (auto& x : acts)
          if (auto number = x.tickets[at(rank)]; number != 0) {
            auto what = all[rank].look(number).what;
            if (what == progress::waiting || what == progress::stopping)
              return false;
          }
    return true;
  }

  /// Checks that operations which are said to be done have the right bits.
  /// Returns how many are not done.
  size_t check_results() {
    size_t failed = 0;
    for (int rank = 0; rank < size(); ++rank)
      for (auto& x : acts) {
        if (x.tickets[at(rank)] == 0)
          continue;
        auto what = all[rank].look(x.tickets[at(rank)]);
        if (what.what == progress::done) {
          CHECK(x.to[at(rank)] == x.expected[at(rank)]);
        } else {
          CHECK((all.away.contains(rank) || !what.why.empty()));
          ++failed;
        }
      }
    return failed;
  }
};

void break_something(cluster& all, int rank) {
  auto& wrong = fake::wrong();
  wrong.notices_aborts = all.random() % 2 == 0;
  switch (all.random() % 9) {
  case 0:
    wrong.call_fails.insert(rank);
    break;
  case 1:
    wrong.never_issued.insert(rank);
    break;
  case 2:
    wrong.never_done.insert(rank);
    break;
  case 3:
    wrong.comm_fails.insert(rank);
    break;
  case 4:
    wrong.never_meets.insert(rank);
    break;
  case 5:
    wrong.queries_fail = true;
    break;
  case 6:
    wrong.stuck.insert(rank);
    all[rank].stop("stuck", all.now);
    break;
  case 7:
    all[rank].stop("ended", all.now);
    break;
  default: // Killed: it does not even abort.
    all.away.insert(rank);
  }
}

} // namespace

TEST_CASE("without faults every history gives the right bits") {
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    CAPTURE(seed);
    {
      cluster all{2 + static_cast<int>(seed % 4), seed, 0.2 + 0.2 * (seed % 4)};
      history it{all, {}};
      for (int i = 0; i < 12; ++i) {
        it.add();
        for (auto n = all.random() % 20; n != 0; --n)
          all.poll();
      }
      REQUIRE(all.until([&] { return it.over(); }, 60));
      CHECK(it.check_results() == 0);
      for (auto& rank : all.ranks)
        rank->close(all.now);
      REQUIRE(all.until([&] { return all.all(phase::closed); }));
    }
    check_clean();
  }
}

TEST_CASE(
  "whatever goes wrong, all is over at the deadline and nothing is left") {
  size_t failed = 0;
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    CAPTURE(seed);
    {
      cluster all{2 + static_cast<int>(seed % 3), seed, 0.3 + 0.2 * (seed % 3)};
      history it{all, {}, all.now + 0.5};
      auto victim = static_cast<int>(all.random() % all.ranks.size());
      auto when = all.random() % 8;
      for (uint64_t i = 0; i < 8; ++i) {
        if (i == when)
          break_something(all, victim);
        it.add();
        for (auto n = all.random() % 10; n != 0; --n)
          all.poll();
      }
      // All deadlines, and the time for the device to let go.
      CHECK(all.until([&] { return it.over(); }, 0.5 + 1.0 + 0.1));
      failed += it.check_results();
      all.ranks.clear();
    }
    check_clean();
  }
  CHECK(failed > 100); // The faults were real.
}

TEST_CASE("ranks on threads of their own give the right bits") {
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    CAPTURE(seed);
    {
      cluster all{3, seed, 0.9};
      history it{all, {}};
      for (int i = 0; i < 10; ++i)
        it.add();
      std::vector<std::thread> threads;
      for (size_t i = 0; i < all.ranks.size(); ++i)
        threads.emplace_back([&rank = *all.ranks[i], goal = it.last_of(i)] {
          while (rank.completed() < goal && !rank.settled()) {
            rank.poll(100);
            std::this_thread::yield();
          }
        });
      for (auto& thread : threads)
        thread.join();
      CHECK(it.check_results() == 0);
    }
    check_clean();
  }
}
