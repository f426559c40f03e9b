#include "messages/transport/nccl/succession.hpp"
#include "tests/nccl/cast.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <map>

using namespace troupe;
using namespace troupe::transport::nccl;
using Catch::Matchers::ContainsSubstring;

namespace {

void check_clean() {
  CHECK(fake::alive() == fake::census{});
  CHECK(fake::comms_made() == fake::comms_ended());
  CHECK(fake::violations() == std::vector<std::string>{});
}

id_bytes new_id(const library_ptr& lib) {
  abi::unique_id id;
  CHECK(lib->call().get_unique_id(&id) == abi::result::success);
  return to_bytes(id);
}

struct couple {
  explicit couple(uint64_t seed = 1) {
    fake::reset(seed);
    lib = fake::library();
    left = std::make_unique<succession>(lib, fake::limits);
    right = std::make_unique<succession>(lib, fake::limits);
  }

  void begin(uint64_t number) {
    auto id = new_id(lib);
    CHECK(left->begin(epoch{number}, id, 0, 2, 0, now));
    CHECK(right->begin(epoch{number}, id, 1, 2, 1, now));
  }

  template <class F>
  bool until(F&& holds) {
    for (auto end = now + 5; now < end && !holds(); now += fake::tick) {
      left->poll(now);
      right->poll(now);
    }
    return holds();
  }

  bool done(const epoch_ticket& x) {
    return right->look(x).what == progress::done;
  }

  double now = 0;
  library_ptr lib;
  std::unique_ptr<succession> left, right;
};

} // namespace

TEST_CASE("an id is the same after the way") {
  fake::reset(1);
  abi::unique_id id;
  CHECK(fake::library()->call().get_unique_id(&id) == abi::result::success);
  auto back = to_abi(to_bytes(id));
  CHECK(std::equal(id.bytes, id.bytes + sizeof id.bytes, back.bytes));
}

TEST_CASE("operations of an older membership fail, those of the new one work") {
  {
    couple two;
    two.begin(1);
    float a = 1, b = 2, x = 0, y = 0;
    two.left->submit(epoch{1}, {send_to(1, &a, 1)}, no_deadline);
    auto kept = two.right->submit(epoch{1}, {receive_from(0, &x, 1)}, 100);
    REQUIRE(two.until([&] { return two.done(kept); }));
    auto lost = two.right->submit(epoch{1}, {receive_from(0, &y, 1)}, 100);
    two.begin(2);
    auto late = two.right->submit(epoch{1}, {receive_from(0, &y, 1)}, 100);
    auto next = two.right->submit(epoch{2}, {receive_from(0, &y, 1)}, 100);
    two.left->submit(epoch{2}, {send_to(1, &b, 1)}, 100);
    REQUIRE(two.until([&] { return two.done(next) && two.right->settled(); }));
    CHECK(y == 2);
    CHECK(two.done(kept)); // What was done stays done.
    CHECK(two.right->look(lost).what == progress::failed);
    CHECK(two.right->look(lost).why == "membership 1: membership 2 has begun");
    CHECK(two.right->look(late).what == progress::failed);
    CHECK_THAT(two.right->look(late).why,
               ContainsSubstring("take the stream for this step"));
    CHECK_FALSE(two.right->failure(epoch{1}).empty());
    CHECK(two.right->failure(epoch{2}).empty());
  }
  check_clean();
}

TEST_CASE("a call that comes late changes nothing") {
  {
    couple two;
    two.begin(5);
    auto id = new_id(two.lib);
    CHECK_FALSE(two.right->begin(epoch{5}, id, 1, 2, 1, 0));
    CHECK_FALSE(two.right->begin(epoch{4}, id, 1, 2, 1, 0));
    two.right->end(epoch{4}, "late", 0);
    CHECK(two.until([&] { return two.right->ready(epoch{5}); }));
    CHECK(two.right->current() == epoch{5});
  }
  check_clean();
}

TEST_CASE("an ended membership takes no operations") {
  {
    couple two;
    CHECK(two.right->settled());
    two.begin(1);
    two.right->end(epoch{1}, "over", 0);
    float x = 0;
    auto late = two.right->submit(epoch{1}, {receive_from(0, &x, 1)}, 100);
    CHECK(two.right->look(late).what == progress::failed);
    CHECK(two.right->failure(epoch{1}) == "over");
    CHECK(two.until([&] { return two.right->settled(); }));
  }
  check_clean();
}

TEST_CASE("of many memberships only the newest are remembered") {
  {
    couple two;
    for (uint64_t i = 1; i <= 50; ++i) {
      two.begin(i);
      two.until([&] { return two.right->ready(epoch{i}); });
    }
    CHECK(fake::alive().comms == 2);
    CHECK(two.right->look({epoch{1}, 1}).what == progress::failed);
  }
  check_clean();
}

// -- server and workers, with all that can happen -----------------------------

namespace {

/// One worker: its communicators, and what it still has to say.
struct guest {
  attendee who;
  std::unique_ptr<succession> line;
  epoch heard{};     ///< The epoch that it has begun.
  bool told = false; ///< That it is ready, or that it failed.
  epoch open{};      ///< The one that was announced.
  bool killed = false;
};

/// The server's and the workers' parts, as actors will play them; messages
/// arrive one round later.
struct theatre {
  explicit theatre(uint64_t seed) : random(seed) {
    fake::reset(seed, 0.7);
    lib = fake::library();
    root = std::make_unique<succession>(lib, fake::limits);
  }

  void carry_out(const orders& out) {
    for (const auto& x : out)
      std::visit([this](const auto& it) { obey(it); }, x);
  }

  void obey(const make_id& x) {
    carry_out(meeting.identified(x.number, new_id(lib), now));
  }

  void obey(const invite& x) {
    auto* to = find(x.to);
    if (to == nullptr || to->killed)
      return;
    if (random() % 20 == 0)
      return; // Its answer, or the call, is lost with a connection.
    if (to->line->begin(x.number, x.id, static_cast<int>(x.rank),
                        static_cast<int>(x.size), 1, now)) {
      to->heard = x.number;
      to->told = false;
      meeting.accepted(x.number, x.to);
    }
  }

  void obey(const begin_root& x) {
    root->begin(x.number, x.id, 0, static_cast<int>(x.size), 0, now);
    root_told = false;
  }

  void obey(const announce& x) {
    if (auto* to = find(x.to))
      to->open = x.number;
  }

  void obey(const dissolve& x) {
    if (auto* to = find(x.to))
      to->line->end(x.number, x.why, now);
  }

  void obey(const end_root& x) { root->end(x.number, x.why, now); }

  void obey(const leave_out&) {
    // nop
  }

  void obey(const switch_off&) {
    // nop
  }

  guest* find(const attendee& who) {
    for (auto& x : guests)
      if (x.who == who)
        return &x;
    return nullptr;
  }

  void assemble() {
    std::vector<attendee> who;
    for (const auto& x : guests)
      who.push_back(x.who);
    carry_out(meeting.assemble(who, now));
  }

  void join() {
    auto line = std::make_unique<succession>(lib, fake::limits);
    guests.push_back({{worker_id{++ids}, incarnation{1}}, std::move(line)});
    assemble();
  }

  /// The server hears of its end; until then it just does not answer.
  void leave(size_t which) {
    guests.erase(guests.begin() + static_cast<long>(which));
    assemble();
  }

  /// What the polls brought to light is told.
  void tell(epoch number, succession& line, bool& told,
            const std::optional<attendee>& who) {
    if (told || number == epoch{})
      return;
    if (auto why = line.failure(number); !why.empty()) {
      told = true;
      carry_out(meeting.broken(number, why, now));
    } else if (line.ready(number)) {
      told = meeting.state() != rendezvous::phase::gathering ? told : true;
      carry_out(meeting.ready(number, who, now));
    }
  }

  void round() {
    now += fake::tick;
    root->poll(now);
    tell(root->current(), *root, root_told, std::nullopt);
    for (size_t i = 0; i < guests.size(); ++i) {
      if (guests[i].killed)
        continue;
      guests[i].line->poll(now);
      tell(guests[i].heard, *guests[i].line, guests[i].told, guests[i].who);
    }
    carry_out(meeting.due(now));
  }

  /// One synchronous step: reduce and broadcast. True when NCCL did it; when
  /// not, some ranks know, and would take the stream.
  bool step() {
    auto number = meeting.number();
    if (!meeting.is_open(number))
      return false;
    auto deadline = now + 0.3;
    auto count = 1 + random() % 20;
    std::map<uint32_t, std::vector<float>> gradients, weights;
    std::map<uint32_t, epoch_ticket> tickets;
    auto own = fake::numbers(count, random);
    std::vector<float> sum(count), expected = own;
    auto published = fake::numbers(count, random);
    root->submit(number, {reduce_to(0, own.data(), sum.data(), count)},
                 deadline);
    auto last = root->submit(
      number, {broadcast_from(0, published.data(), count)}, deadline);
    for (auto& x : guests) {
      if (x.killed || x.open != number)
        continue;
      auto rank = x.who.worker.value;
      auto& from = gradients[rank] = fake::numbers(count, random);
      auto& to = weights[rank] = std::vector<float>(count);
      x.line->submit(number, {reduce_to(0, from.data(), nullptr, count)},
                     deadline);
      tickets[rank] =
        x.line->submit(number, {broadcast_from(0, to.data(), count)}, deadline);
      for (size_t i = 0; i < count; ++i)
        expected[i] += from[i];
    }
    auto mischief = random() % 400;
    auto open = [](const outcome& x) {
      return x.what == progress::waiting || x.what == progress::stopping;
    };
    for (int i = 0; i < 3000; ++i) {
      if (static_cast<uint64_t>(i) == mischief && peaceful == false)
        misbehave();
      round();
      auto busy = open(root->look(last));
      for (auto& x : guests)
        if (auto it = tickets.find(x.who.worker.value);
            it != tickets.end() && !x.killed)
          busy = busy || open(x.line->look(it->second));
      if (!busy)
        break;
    }
    // Nobody waits any more, and who is done has the right bits.
    auto whole = root->look(last).what == progress::done;
    CHECK_FALSE(open(root->look(last)));
    if (whole)
      CHECK(sum == expected);
    for (auto& x : guests) {
      auto it = tickets.find(x.who.worker.value);
      if (it == tickets.end() || x.killed)
        continue;
      auto what = x.line->look(it->second);
      CHECK_FALSE(open(what));
      if (what.what == progress::done)
        CHECK(weights[x.who.worker.value] == published);
      else
        CHECK_FALSE(what.why.empty());
      whole = whole && what.what == progress::done;
    }
    // The memory of a killed one goes with it.
    std::erase_if(guests, [](const guest& x) { return x.killed; });
    assemble();
    return whole;
  }

  void misbehave() {
    switch (random() % 6) {
    case 0:
      if (!guests.empty())
        guests[random() % guests.size()].killed = true;
      break;
    case 1:
      fake::wrong().comm_fails.insert(static_cast<int>(random() % 3));
      break;
    case 2:
      fake::wrong().never_done.insert(static_cast<int>(random() % 3));
      break;
    case 3:
      fake::wrong().call_fails.insert(static_cast<int>(random() % 3));
      break;
    default:
      break;
    }
  }

  std::mt19937_64 random;
  double now = 0;
  library_ptr lib;
  rendezvous meeting{{.patience = 0.5,
                      .strikes = 3,
                      .failures = 1000,
                      .pause = 0.01,
                      .longest_pause = 0.1}};
  std::unique_ptr<succession> root;
  bool root_told = false;
  uint32_t ids = 0;
  std::deque<guest> guests;
  bool peaceful = false;
};

} // namespace

TEST_CASE(
  "a cast that comes, goes and breaks steps on, by NCCL or told not to") {
  size_t by_nccl = 0, otherwise = 0;
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    CAPTURE(seed);
    {
      theatre all{seed};
      for (int i = 0; i < 3; ++i)
        all.join();
      for (int step = 0; step < 12; ++step) {
        if (all.random() % 4 == 0 && all.guests.size() < 5)
          all.join();
        if (all.random() % 6 == 0 && all.guests.size() > 1)
          all.leave(all.random() % all.guests.size());
        for (auto n = all.random() % 100; n != 0; --n)
          all.round();
        ++(all.step() ? by_nccl : otherwise);
        fake::wrong() = {};
      }
      // In peace all meet again and step by NCCL.
      all.peaceful = true;
      all.join();
      for (int i = 0; i < 20'000 && !all.meeting.is_open(all.meeting.number());
           ++i)
        all.round();
      CHECK(all.step());
    }
    check_clean();
  }
  CHECK(by_nccl > 200);
  CHECK(otherwise > 80);
}
