#include "config/text/failure.hpp"
#include "config/text/value.hpp"
#include "config/values/metrics.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <cmath>

using namespace troupe;
using namespace troupe::config;
using Catch::Matchers::ContainsSubstring;

TEST_CASE("a target is a metric and the value that ends the run") {
  auto f1 = parse_target(" f1/all >= 0.90 ");
  CHECK(f1.name == "f1/all");
  CHECK(f1.at_least);
  CHECK(f1.value == 0.9);
  CHECK(to_string(f1) == "f1/all>=0.9");
  CHECK(to_string(parse_target("loss<=1e-3")) == "loss<=0.001");
  CHECK(f1.is_reached({{"loss", 1}, {"f1/all", 0.9}}));
  CHECK_FALSE(f1.is_reached({{"f1/all", 0.89}}));
  CHECK_FALSE(f1.is_reached({{"f1/all", std::nan("")}}));
  CHECK_FALSE(f1.is_reached({{"f1", 1}}));
  for (const auto* bad : {"f1", "f1=0.9", "f1>0.9", "f1=>0.9", ">=0.9",
                          "f1>=", "f1>=x", "f1>=nan", "1f>=0.9", "f 1>=0.9"}) {
    INFO(bad);
    CHECK_THROWS_AS(parse_target(bad), bad_value);
  }
}

TEST_CASE("an order names a metric whose highest or lowest value is the best") {
  CHECK(to_string(parse_order(" max( f1 ) ")) == "max(f1)");
  auto lowest = parse_order("min(loss)");
  CHECK(lowest.is_better(1, 2));
  CHECK_FALSE(lowest.is_better(2, 2));
  CHECK_FALSE(lowest.is_better(std::nan(""), 2));
  for (const auto* bad : {"loss", "min", "min()", "min(loss", "best(loss)",
                          "max(a,b)", "MAX(f1)"}) {
    INFO(bad);
    CHECK_THROWS_AS(parse_order(bad), bad_value);
  }
}

TEST_CASE("metrics of an average have names of their own") {
  std::string longest(61, 'n');
  metrics all{{"loss", 1}};
  add_average(all, {{"loss", 2}, {longest, 3}, {"f1", 4}});
  CHECK((all == metrics{{"loss", 1}, {"ema/loss", 2}, {"ema/f1", 4}}));
  CHECK(is_of_average("ema/loss"));
  CHECK_FALSE(is_of_average("loss"));
  metrics many(most_metrics - 1, {"m", 0});
  add_average(many, {{"a", 1}, {"b", 2}});
  CHECK(many.size() == most_metrics);
  CHECK(many.back() == metric{"ema/a", 1});
}

TEST_CASE("what counts is best-by, then the target, then what is usual") {
  settings all;
  CHECK(order_of(all) == std::nullopt);
  all.training.target_accuracy = 0.9;
  CHECK(order_of(all) == parse_order("max(accuracy)"));
  all.training.target_accuracy.reset();
  all.training.target = "loss<=1";
  CHECK(order_of(all) == parse_order("min(loss)"));
  all.checkpoint.best_by = "max(f1)";
  CHECK(order_of(all) == parse_order("max(f1)"));
  CHECK(usual_order({{"loss", 1}, {"accuracy", 0}}) ==
        parse_order("max(accuracy)"));
  CHECK(usual_order({{"f1", 1}, {"loss", 1}}) == parse_order("min(loss)"));
  CHECK(usual_order({{"f1", 1}}) == std::nullopt);
}

TEST_CASE("a score without the target's metric is an error") {
  training_settings all;
  require_target(all, {});
  all.target = "f1>=0.9";
  require_target(all, {{"loss", 1}, {"f1", 0}});
  CHECK_THROWS_WITH(
    require_target(all, {{"loss", 1}, {"accuracy", 0}}),
    ContainsSubstring("f1>=0.9: the score has no f1, only loss, accuracy"));
}
