#include "messages/transport/nccl/library/communicator.hpp"
#include "tests/nccl/check_clean.hpp"
#include "tests/nccl/collective.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <stdexcept>

using namespace troupe::transport::nccl;
using Catch::Matchers::ContainsSubstring;
using fake::check_clean;
using fake::cluster;

namespace {

using phase = communicator::phase;

bool done(cluster& all, int rank, ticket number) {
  return all[rank].look(number).what == progress::done;
}

} // namespace

// -- life ---------------------------------------------------------------------

TEST_CASE("ranks meet, say goodbye and leave nothing behind") {
  {
    cluster all{3};
    CHECK(all[0].state() == phase::initialising);
    REQUIRE(all.until([&] { return all.all(phase::ready); }));
    for (auto& rank : all.ranks)
      rank->close(all.now);
    REQUIRE(all.until([&] { return all.all(phase::closed); }));
    CHECK(all[1].look(all[1].submit({}, no_deadline)).what == progress::failed);
  }
  check_clean();
}

TEST_CASE("a communicator that is dropped at any time is aborted once") {
  for (int rounds = 0; rounds < 8; ++rounds) {
    float x = 1;
    cluster all{2, 7};
    all[0].submit({send_to(1, &x, 1)}, no_deadline);
    for (int i = 0; i < rounds; ++i)
      all.poll();
    all.ranks.clear();
    check_clean();
  }
}

TEST_CASE("the caller's device stays the current one") {
  cluster all{2};
  int before = -1;
  all.lib->call().set_device(0);
  REQUIRE(all.until([&] { return all.all(phase::ready); }));
  all.lib->call().get_device(&before);
  CHECK(before == 0);
}

TEST_CASE("a rank that does not come fails the others in time") {
  {
    cluster all{3};
    all.away.insert(2);
    fake::wrong().never_meets.insert(2);
    auto begun = all.now;
    REQUIRE(all.until([&] { return all[0].settled() && all[1].settled(); }));
    CHECK(all.now < begun + fake::limits.init + 0.1);
    CHECK_THAT(all[0].why(), ContainsSubstring("3 ranks"));
  }
  check_clean();
}

TEST_CASE("beginning fails with a reason") {
  fake::faults wrong;
  SECTION("at once") {
    wrong.refused.insert(0);
  }
  SECTION("after a while") {
    wrong.meets_badly.insert(0);
  }
  SECTION("without streams") {
    wrong.no_streams = true;
  }
  SECTION("on a device that is not there") {
    wrong.bad_device = true;
  }
  {
    cluster none{0};
    fake::wrong() = wrong;
    abi::unique_id id;
    none.lib->call().get_unique_id(&id);
    communicator one{none.lib, {id, 0, 1, 1}, fake::limits, 0};
    for (double now = 0; now < 2 && !one.settled(); now += fake::tick)
      one.poll(now);
    CHECK(one.state() == phase::failed);
    CHECK_THAT(one.why(), ContainsSubstring("planned"));
    CHECK(one.look(one.submit({}, no_deadline)).what == progress::failed);
  }
  check_clean();
}

TEST_CASE("a goodbye that is not answered ends in an abort") {
  {
    cluster all{2};
    REQUIRE(all.until([&] { return all.all(phase::ready); }));
    fake::wrong().never_leaves.insert(0);
    all[0].close(all.now);
    REQUIRE(all.until([&] { return all[0].settled(); }));
    CHECK(all[0].state() == phase::failed);
    CHECK_THAT(all[0].why(), ContainsSubstring("goodbye"));
  }
  check_clean();
}

// -- operations ---------------------------------------------------------------

TEST_CASE("numbers go from one rank to another, in order") {
  {
    cluster all{2};
    std::mt19937_64 random{3};
    auto a = fake::numbers(1000, random);
    auto b = fake::numbers(10, random);
    std::vector<float> x(1000), y(10);
    // Before they have met: it waits.
    all[0].submit({send_to(1, a.data(), a.size())}, no_deadline);
    auto sent = all[0].submit({send_to(1, b.data(), b.size())}, no_deadline);
    all[1].submit({receive_from(0, x.data(), x.size())}, no_deadline);
    auto got = all[1].submit({receive_from(0, y.data(), y.size())}, 200);
    CHECK(all[1].look(got).what == progress::waiting);
    REQUIRE(all.until([&] { return done(all, 1, got) && done(all, 0, sent); }));
    CHECK(x == a);
    CHECK(y == b);
    CHECK(all[1].completed() == got);
  }
  check_clean();
}

TEST_CASE("two ranks send to each other at the same time") {
  {
    cluster all{2};
    std::vector<double> a{1.5, 2.5}, b{3.5, 4.5}, x(2), y(2);
    auto type = data_type::float64;
    auto left = all[0].submit(
      {send_to(1, a.data(), 2, type), receive_from(1, x.data(), 2, type)},
      no_deadline);
    auto right = all[1].submit(
      {send_to(0, b.data(), 2, type), receive_from(0, y.data(), 2, type)},
      no_deadline);
    REQUIRE(
      all.until([&] { return done(all, 0, left) && done(all, 1, right); }));
    CHECK(x == b);
    CHECK(y == a);
  }
  check_clean();
}

TEST_CASE("numbers of 16 bits go as they are") {
  {
    cluster all{2};
    std::vector<uint16_t> a{1, 0xffff, 3}, x(4, 7);
    auto type = data_type::bfloat16;
    all[0].submit({send_to(1, a.data(), 3, type)}, no_deadline);
    auto got = all[1].submit({receive_from(0, x.data(), 3, type)}, no_deadline);
    REQUIRE(all.until([&] { return done(all, 1, got); }));
    CHECK(x == std::vector<uint16_t>{1, 0xffff, 3, 7});
  }
  check_clean();
}

TEST_CASE("nothing to move needs no other rank") {
  {
    cluster all{2};
    auto number = all[0].submit({send_to(1, nullptr, 0)}, no_deadline);
    CHECK(all.until([&] { return done(all, 0, number); }));
  }
  check_clean();
}

TEST_CASE("an operation waits for the stream that makes its numbers") {
  {
    cluster all{2};
    float a = 0, x = 0;
    auto stream = fake::busy_stream();
    auto number = all[0].submit({send_to(1, &a, 1)}, no_deadline, stream);
    all[1].submit({receive_from(0, &x, 1)}, no_deadline);
    CHECK_FALSE(all.until([&] { return done(all, 0, number); }, 0.2));
    a = 5; // The stream has computed it.
    fake::finish(stream);
    REQUIRE(all.until([&] { return done(all, 0, number); }));
    CHECK(x == 5);
    all.lib->call().stream_destroy(stream);
  }
  check_clean();
}

TEST_CASE("each rank's part of a sum has a scale of its own") {
  for (auto wide : {false, true}) {
    cluster all{3};
    auto type = wide ? data_type::float64 : data_type::float32;
    double own[] = {8, 8, 8};
    float narrow[] = {8, 8, 8};
    double sum = 0;
    float narrow_sum = 0;
    auto from = [&](int rank) -> const void* {
      return wide ? static_cast<const void*>(&own[rank]) : &narrow[rank];
    };
    auto* to = wide ? static_cast<void*>(&sum) : &narrow_sum;
    all[0].submit({reduce_to(0, from(0), to, 1, type)}, no_deadline);
    all[1].submit({reduce_to(0, from(1), nullptr, 1, type, .25)}, no_deadline);
    all[2].submit({reduce_to(0, from(2), nullptr, 1, type, .5)}, no_deadline);
    REQUIRE(all.until([&] { return done(all, 0, 1); }));
    CHECK((wide ? sum : narrow_sum) == 8 + 2 + 4);
    for (auto& rank : all.ranks)
      rank->close(all.now);
    REQUIRE(all.until([&] { return all.all(phase::closed); }));
    check_clean();
  }
}

TEST_CASE("what cannot be is refused and harms nothing") {
  cluster all{2};
  float x = 0;
  using wrong = std::invalid_argument;
  CHECK_THROWS_AS(all[0].submit({send_to(0, &x, 1)}, 1), wrong);
  CHECK_THROWS_AS(all[0].submit({send_to(2, &x, 1)}, 1), wrong);
  CHECK_THROWS_AS(all[0].submit({send_to(-1, &x, 1)}, 1), wrong);
  CHECK_THROWS_AS(all[0].submit({send_to(1, nullptr, 1)}, 1), wrong);
  CHECK_THROWS_AS(all[0].submit({receive_from(1, nullptr, 1)}, 1), wrong);
  CHECK_THROWS_AS(all[0].submit({reduce_to(0, &x, nullptr, 1)}, 1), wrong);
  CHECK_THROWS_AS(
    all[0].submit({broadcast_from(0, &x, 1), send_to(1, &x, 1)}, 1), wrong);
  CHECK(all[0].look(1).what == progress::failed);
  CHECK(all.until([&] { return all.all(phase::ready); }));
}

// -- faults -------------------------------------------------------------------

TEST_CASE("an operation that a peer never joins ends at its deadline") {
  {
    cluster all{2};
    float x = 0;
    REQUIRE(all.until([&] { return all.all(phase::ready); }));
    auto number = all[0].submit({receive_from(1, &x, 1)}, all.now + 0.5);
    auto begun = all.now;
    REQUIRE(all.until([&] { return all[0].settled(); }));
    CHECK(all.now < begun + 0.6);
    auto what = all[0].look(number);
    CHECK(what.what == progress::failed);
    CHECK_THAT(what.why, ContainsSubstring("receive of 4 B from rank 1"));
  }
  check_clean();
}

TEST_CASE("memory is given back only when the device has let go") {
  {
    cluster all{2};
    auto x = std::make_unique<float>(0.f);
    REQUIRE(all.until([&] { return all.all(phase::ready); }));
    auto number = all[0].submit({receive_from(1, x.get(), 1)}, no_deadline);
    for (int i = 0; i < 50; ++i)
      all.poll();
    fake::wrong().stuck.insert(0);
    all[0].stop("enough", all.now);
    all.poll();
    CHECK(all[0].look(number).what == progress::stopping);
    SECTION("it does") {
      fake::wrong().stuck.clear();
      REQUIRE(all.until([&] { return all[0].settled(); }));
      CHECK(all[0].look(number).what == progress::failed);
      x.reset(); // The sanitizer would see a later write.
      all.poll();
    }
    SECTION("it does not, in time") {
      REQUIRE(all.until([&] { return all[0].settled(); }));
      CHECK(all[0].look(number).what == progress::lost);
      CHECK(all[0].look(number).why == "enough");
    }
  }
  check_clean();
}

TEST_CASE("faults of calls, of the device and of others fail with a reason") {
  {
    cluster all{2};
    float x = 0;
    REQUIRE(all.until([&] { return all.all(phase::ready); }));
    auto number = all[0].submit({receive_from(1, &x, 1)}, all.now + 0.5);
    SECTION("a call") {
      fake::wrong().call_fails.insert(0);
    }
    SECTION("a call in a group") {
      fake::wrong().call_fails.insert(0);
      number = all[0].submit({receive_from(1, &x, 1), send_to(1, &x, 1)}, 200);
    }
    SECTION("a call that never comes in") {
      fake::wrong().never_issued.insert(0);
    }
    SECTION("the communicator") {
      fake::wrong().comm_fails.insert(0);
    }
    SECTION("the device") {
      fake::wrong().queries_fail = true;
    }
    SECTION("a peer that aborts") {
      fake::wrong().notices_aborts = true;
      all[1].stop("killed", all.now);
    }
    REQUIRE(all.until([&] { return all[0].settled(); }));
    auto what = all[0].look(number).what;
    CHECK((what == progress::failed || what == progress::lost));
    CHECK_FALSE(all[0].look(number).why.empty());
  }
  check_clean();
}
