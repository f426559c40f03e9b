#include "actors/core/evaluation_board.hpp"
#include "actors/core/refusals.hpp"
#include "actors/core/stop_rule.hpp"
#include "tests/support/metrics.hpp"

#include <catch2/catch_test_macros.hpp>

#include <cmath>

using namespace troupe;
using namespace troupe::cores;
using troupe::testing::found;

// -- refusals -----------------------------------------------------------------

TEST_CASE("twenty refused gradients in a row expel a worker") {
  refusals count;
  worker_id bad{1};
  worker_id other{2};
  for (int i = 0; i < 19; ++i) {
    CHECK(!count.refused(bad));
    count.sound(other);
  }
  CHECK(count.in_a_row(bad) == 19);
  CHECK(!count.refused(other));
  CHECK(count.refused(bad));
}

TEST_CASE("a sound gradient or a new life clears the count") {
  refusals count{2};
  worker_id w{0};
  CHECK(!count.refused(w));
  count.sound(w);
  CHECK(!count.refused(w));
  count.forget(w);
  CHECK(!count.refused(w));
  CHECK(count.refused(w));
}

// -- the stop rule ------------------------------------------------------------

TEST_CASE("the limit that is reached first ends the run and stays the reason") {
  stop_rule rule{{.epochs = 3,
                  .max_steps = 100,
                  .target = config::parse_target("accuracy>=0.9")}};
  CHECK(rule.updated(99, 2) == stop_reason::none);
  CHECK(rule.line().empty());
  CHECK(rule.scored(found(0.89)) == stop_reason::none);
  SECTION("epochs") {
    CHECK(rule.updated(99, 3) == stop_reason::epochs);
    CHECK(rule.scored(found(0.99)) == stop_reason::epochs);
    CHECK(rule.updated(100, 3) == stop_reason::epochs);
    CHECK(rule.line() == "reached epochs = 3");
  }
  SECTION("steps") {
    CHECK(rule.updated(100, 2) == stop_reason::max_steps);
    CHECK(rule.line() == "reached max-steps = 100");
  }
  SECTION("both with one update") {
    CHECK(rule.updated(100, 3) == stop_reason::epochs);
  }
  SECTION("metrics without an accuracy") {
    CHECK(rule.scored({}) == stop_reason::none);
    CHECK(rule.scored({{"loss", 0.95}}) == stop_reason::none);
  }
  SECTION("accuracy") {
    CHECK(rule.scored(found(std::nan(""))) == stop_reason::none);
    CHECK(rule.scored(found(0.9)) == stop_reason::target);
    CHECK(rule.updated(1'000, 10) == stop_reason::target);
    CHECK(rule.line() == "reached accuracy>=0.9");
  }
}

TEST_CASE("a metric may have to be small") {
  stop_rule rule{{.epochs = {},
                  .max_steps = {},
                  .target = config::parse_target("perplexity <= 12.5")}};
  CHECK(rule.scored({{"perplexity", 12.6}}) == stop_reason::none);
  CHECK(rule.scored({{"perplexity", std::nan("")}}) == stop_reason::none);
  CHECK(rule.scored({{"loss", 1}, {"perplexity", 12.5}}) ==
        stop_reason::target);
  CHECK(rule.line() == "reached perplexity<=12.5");
}

TEST_CASE("a limit that is not given does not apply") {
  stop_rule rule;
  CHECK(rule.updated(1'000'000, 1'000) == stop_reason::none);
  CHECK(rule.scored(found(1.0)) == stop_reason::none);
}

TEST_CASE("a run that is resumed at its limit ends at once") {
  stop_rule rule{{.epochs = {}, .max_steps = 5, .target = {}}};
  CHECK(rule.updated(7, 0) == stop_reason::max_steps);
  CHECK(rule.reason() == stop_reason::max_steps);
}

TEST_CASE("versions at a distance are due, and the last one") {
  evaluation_board board{2};
  CHECK_FALSE(board.updated(version{0}, version{1}, 1));
  CHECK(board.updated(version{1}, version{2}, 1));
  CHECK(board.next(version{0}) == version{2});
  CHECK_FALSE(board.next(version{2}));
  board.finish(version{3});
  CHECK_FALSE(board.updated(version{3}, version{4}, 9));
  CHECK(board.next(version{2}) == version{3});
}

TEST_CASE("of the versions that are made at once the last is due") {
  evaluation_board board{10};
  CHECK_FALSE(board.updated(version{0}, version{9}, 1));
  CHECK(board.updated(version{9}, version{12}, 1));
  CHECK(board.next(version{9}) == version{12});
  CHECK_FALSE(board.updated(version{12}, version{19}, 1));
}

TEST_CASE("the version that completes an epoch is due") {
  evaluation_board board{0, 3};
  CHECK_FALSE(board.updated(version{49}, version{50}, 3));
  CHECK(board.updated(version{50}, version{51}, 4));
  CHECK_FALSE(board.updated(version{51}, version{52}, 4));
  CHECK(board.updated(version{52}, version{53}, 6)); // Two at once.
  CHECK(board.next(version{51}) == version{53});
}
