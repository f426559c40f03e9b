#include "messages/transport/nccl/rendezvous.hpp"

#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <random>
#include <tuple>

using namespace troupe;
using namespace troupe::transport::nccl;

namespace {

constexpr id_bytes id{std::byte{7}};

attendee worker(uint32_t rank, uint32_t life = 1) {
  return {worker_id{rank}, life_number{life}};
}

template <class T>
std::vector<T> only(const orders& all) {
  std::vector<T> result;
  for (const auto& x : all)
    if (const auto* it = std::get_if<T>(&x))
      result.push_back(*it);
  return result;
}

/// Plays a meeting up to the point where everybody is called.
orders gather(rendezvous& x, const std::vector<attendee>& who, double now = 0) {
  auto asked = only<make_id>(x.assemble(who, now));
  REQUIRE(asked.size() == 1);
  CHECK(asked[0].number == x.number());
  return x.identified(x.number(), id, now);
}

/// Lets all members answer.
orders open(rendezvous& x, double now = 0) {
  auto members = x.members();
  for (const auto& who : members) {
    x.accepted(x.number(), who);
    auto out = x.ready(x.number(), who, now);
    CHECK(out.empty());
  }
  return x.ready(x.number(), std::nullopt, now);
}

} // namespace

TEST_CASE("the server is rank 0, the workers follow in order") {
  rendezvous x{{}};
  auto out = gather(x, {worker(7), worker(2)});
  auto calls = only<invite>(out);
  REQUIRE(calls.size() == 2);
  CHECK(calls[0].to == worker(2));
  CHECK(calls[0].rank == 1);
  CHECK(calls[1].to == worker(7));
  CHECK(calls[1].rank == 2);
  CHECK(calls[1].size == 3);
  CHECK(calls[1].id == id);
  // Its own end last: the others are on their way by then.
  REQUIRE(std::holds_alternative<begin_root>(out.back()));
  CHECK(only<begin_root>(out)[0].size == 3);
  auto opened = only<announce>(open(x));
  CHECK(opened.size() == 2);
  CHECK(x.is_open(x.number()));
  CHECK_FALSE(x.next_due());
}

TEST_CASE("it opens when the last is ready, not before") {
  rendezvous x{{}};
  gather(x, {worker(0), worker(1)});
  CHECK(x.ready(x.number(), worker(0), 1).empty());
  CHECK(x.ready(x.number(), std::nullopt, 1).empty());
  CHECK(x.ready(x.number(), worker(0), 1).empty()); // Said twice.
  CHECK(x.state() == rendezvous::phase::gathering);
  CHECK(only<announce>(x.ready(x.number(), worker(1), 1)).size() == 2);
}

TEST_CASE("nobody to meet: nothing happens") {
  rendezvous x{{}};
  CHECK(x.assemble({}, 0).empty());
  CHECK(x.state() == rendezvous::phase::idle);
}

TEST_CASE("a change of members ends the epoch and begins the next") {
  rendezvous x{{}};
  gather(x, {worker(0), worker(1)});
  open(x);
  auto old = x.number();
  auto out = x.assemble({worker(0), worker(1, 2)}, 5);
  // The life that is gone is told nothing: its rank belongs to the new life.
  auto told = only<dissolve>(out);
  REQUIRE(told.size() == 1);
  CHECK(told[0].to == worker(0));
  CHECK(told[0].number == old);
  CHECK(only<end_root>(out).size() == 1);
  CHECK(only<make_id>(out).size() == 1);
  CHECK(x.number() == old.next());
  CHECK_FALSE(x.is_open(old));
}

TEST_CASE("the same members again change nothing") {
  rendezvous x{{}};
  gather(x, {worker(0), worker(1)});
  CHECK(x.assemble({worker(1), worker(0)}, 1).empty());
}

TEST_CASE("all are gone: the server ends its end") {
  rendezvous x{{}};
  gather(x, {worker(0)});
  auto out = x.assemble({}, 1);
  CHECK(only<end_root>(out).size() == 1);
  CHECK(x.state() == rendezvous::phase::idle);
}

TEST_CASE("answers of an older epoch count for nothing") {
  rendezvous x{{}};
  gather(x, {worker(0)});
  auto old = x.number();
  std::ignore = x.assemble({worker(0), worker(1)}, 1);
  CHECK(x.identified(old, id, 1).empty());
  CHECK(x.ready(old, worker(0), 1).empty());
  CHECK(x.broken(old, "late", 1).empty());
  CHECK(x.declined(old, worker(0), "late", 1).empty());
  CHECK(x.state() == rendezvous::phase::naming);
}

TEST_CASE("who declines is left out for this life, and the others go on") {
  rendezvous x{{}};
  gather(x, {worker(0), worker(1)});
  auto out = x.declined(x.number(), worker(1), "no memory", 1);
  REQUIRE(only<leave_out>(out).size() == 1);
  CHECK(only<leave_out>(out)[0].why == "no memory");
  CHECK(only<make_id>(out).size() == 1);
  CHECK(x.members() == std::vector{worker(0)});
  // Worker 1 stays out when others come, and is in again with its next life.
  std::ignore = x.assemble({worker(0), worker(1), worker(2)}, 2);
  CHECK(x.members() == std::vector{worker(0), worker(2)});
  std::ignore = x.assemble({worker(0), worker(1, 2), worker(2)}, 2);
  CHECK(x.members() == std::vector{worker(0), worker(1, 2), worker(2)});
}

TEST_CASE("who never answers is left out after some tries") {
  rendezvous x{{.patience = 10, .strikes = 2, .pause = 1}};
  gather(x, {worker(0), worker(1)});
  x.accepted(x.number(), worker(0));
  CHECK(x.due(9.9).empty());
  auto out = x.due(10);
  CHECK(only<dissolve>(out).size() == 2);
  CHECK(only<leave_out>(out).empty());
  CHECK(x.why() == "worker 1 did not answer");
  CHECK(x.state() == rendezvous::phase::resting);
  REQUIRE(x.next_due() == 11);
  CHECK(only<make_id>(x.due(11)).size() == 1);
  std::ignore = x.identified(x.number(), id, 11);
  x.accepted(x.number(), worker(0));
  CHECK(only<leave_out>(x.due(21)).size() == 1);
  std::ignore = x.due(22);
  CHECK(x.members() == std::vector{worker(0)});
}

TEST_CASE("an answer makes earlier silence forgotten") {
  rendezvous x{{.patience = 10, .strikes = 2, .failures = 100, .pause = 1}};
  std::ignore = gather(x, {worker(0)});
  for (int i = 0; i < 5; ++i) {
    // Silent once, then there, but never ready.
    auto left_out = only<leave_out>(x.due(*x.next_due()));
    CHECK(left_out.empty());
    std::ignore = x.due(*x.next_due());
    std::ignore = x.identified(x.number(), id, 0);
    if (i % 2 == 0)
      x.accepted(x.number(), worker(0));
  }
  CHECK(x.members() == std::vector{worker(0)});
}

TEST_CASE("failures without anybody to blame switch it off for good") {
  rendezvous x{{.failures = 3, .pause = 1, .longest_pause = 60}};
  gather(x, {worker(0)});
  open(x);
  CHECK(x.broken(x.number(), "remote error", 1).size() == 2);
  REQUIRE(x.next_due() == 2);
  std::ignore = x.due(2);
  CHECK(x.broken(x.number(), "no id", 2).empty()); // So far nobody was called.
  REQUIRE(x.next_due() == 4);                      // The wait doubles.
  std::ignore = x.due(4);
  auto out = x.broken(x.number(), "no id again", 4);
  REQUIRE(only<switch_off>(out).size() == 1);
  CHECK(only<switch_off>(out)[0].why == "no id again");
  CHECK(x.state() == rendezvous::phase::off);
  CHECK(x.assemble({worker(0), worker(1)}, 5).empty());
  CHECK_FALSE(x.next_due());
}

TEST_CASE("an epoch that was open for long makes failures forgotten") {
  rendezvous x{{.failures = 2, .pause = 1, .longest_pause = 60}};
  gather(x, {worker(0)});
  CHECK_FALSE(x.broken(x.number(), "once", 0).empty());
  std::ignore = x.due(1);
  std::ignore = x.identified(x.number(), id, 1);
  open(x, 1);
  CHECK_FALSE(x.broken(x.number(), "much later", 1000).empty());
  CHECK(x.state() == rendezvous::phase::resting);
}

TEST_CASE("a change of members does not cut a rest short") {
  rendezvous x{{.pause = 1}};
  gather(x, {worker(0)});
  CHECK_FALSE(x.broken(x.number(), "once", 0).empty());
  CHECK(x.assemble({worker(0), worker(1)}, 0.5).empty());
  CHECK(only<make_id>(x.due(1)).size() == 1);
  CHECK(x.members().size() == 2);
}

// -- random histories ---------------------------------------------------------

namespace {

/// What the orders so far add up to; checks each of them.
struct ledger {
  epoch newest;
  std::set<std::pair<uint64_t, attendee>> called; ///< And not yet told the end.
  std::set<uint64_t> roots;
  std::set<attendee> left_out;
  bool off = false;

  void note_orders(const orders& out, const std::set<attendee>& present) {
    for (const auto& x : out) {
      REQUIRE_FALSE(off);
      std::visit([&](const auto& it) { note(it, present); }, x);
    }
    CHECK(roots.size() <= 1);
  }

  void note(const make_id& x, const std::set<attendee>&) {
    CHECK(x.number == newest.next());
    CHECK(roots.empty());
    newest = x.number;
  }

  void note(const invite& x, const std::set<attendee>& present) {
    CHECK(x.number == newest);
    CHECK(present.contains(x.to));
    CHECK_FALSE(left_out.contains(x.to));
    CHECK((x.rank >= 1 && x.rank < x.size));
    CHECK(called.emplace(x.number.value, x.to).second);
  }

  void note(const begin_root& x, const std::set<attendee>&) {
    CHECK(x.number == newest);
    CHECK(roots.insert(x.number.value).second);
  }

  void note(const announce& x, const std::set<attendee>&) {
    CHECK(called.contains({x.number.value, x.to}));
    CHECK(roots.contains(x.number.value));
  }

  void note(const dissolve& x, const std::set<attendee>& present) {
    CHECK(present.contains(x.to));
    CHECK(called.erase({x.number.value, x.to}) == 1);
    CHECK_FALSE(x.why.empty());
  }

  void note(const end_root& x, const std::set<attendee>& present) {
    CHECK(roots.erase(x.number.value) == 1);
    // Every member of the epoch that is still there has been told.
    for (const auto& [number, who] : called)
      CHECK((number != x.number.value || !present.contains(who)));
  }

  void note(const leave_out& x, const std::set<attendee>&) {
    CHECK(left_out.insert(x.who).second);
  }

  void note(const switch_off&, const std::set<attendee>&) { off = true; }
};

} // namespace

TEST_CASE("random histories keep the promises") {
  size_t opened = 0, offs = 0;
  for (uint64_t seed = 1; seed <= 400; ++seed) {
    CAPTURE(seed);
    std::mt19937_64 random{seed};
    rendezvous x{{.patience = 5,
                  .strikes = 2,
                  .failures = 4,
                  .pause = 1,
                  .longest_pause = 8}};
    ledger book;
    std::set<attendee> present;
    std::map<uint32_t, uint32_t> lives;
    double now = 0;
    auto someone = [&] {
      auto it = present.begin();
      std::advance(it, static_cast<long>(random() % present.size()));
      return *it;
    };
    // Mostly the newest epoch, sometimes one that is over.
    auto number = [&] {
      return random() % 8 == 0 ? epoch{x.number().value / 2} : x.number();
    };
    for (int i = 0; i < 150; ++i) {
      now += 0.1 * static_cast<double>(random() % 10);
      auto what = random() % 20;
      if (what == 0) {
        auto rank = static_cast<uint32_t>(random() % 4);
        std::erase_if(present,
                      [&](auto& who) { return who.worker.value == rank; });
        if (random() % 3 != 0)
          present.insert(worker(rank, ++lives[rank]));
        book.note_orders(x.assemble({present.begin(), present.end()}, now),
                         present);
      } else if (what < 4) {
        book.note_orders(x.identified(number(), id, now), present);
      } else if (what < 7) {
        book.note_orders(x.ready(number(), std::nullopt, now), present);
      } else if (what == 7) {
        book.note_orders(x.due(now), present);
      } else if (what == 8) {
        book.note_orders(x.broken(number(), "broken", now), present);
      } else if (!present.empty()) {
        if (what == 9 && random() % 3 == 0) {
          book.note_orders(x.declined(number(), someone(), "cannot", now),
                           present);
        } else if (what < 12) {
          x.accepted(number(), someone());
        } else {
          book.note_orders(x.ready(number(), someone(), now), present);
        }
      }
      opened += x.state() == rendezvous::phase::open;
      auto waits = x.state() != rendezvous::phase::idle &&
                   x.state() != rendezvous::phase::open &&
                   x.state() != rendezvous::phase::off;
      CHECK(x.next_due().has_value() == waits);
    }
    offs += book.off;
    if (book.off)
      continue;
    // Everybody behaves from now on: it opens, if anybody is left to call.
    for (int i = 0; i < 6 && x.state() != rendezvous::phase::open; ++i) {
      if (x.next_due())
        book.note_orders(x.due(now = std::max(now, *x.next_due())), present);
      book.note_orders(x.identified(x.number(), id, now), present);
      if (x.state() == rendezvous::phase::gathering)
        book.note_orders(open(x, now), present);
    }
    auto expected = x.members().empty() || book.off;
    CHECK((x.state() == rendezvous::phase::open || expected));
  }
  // Otherwise the histories would prove little.
  CHECK(opened > 1000);
  CHECK(offs > 5);
  CHECK(offs < 200);
}
