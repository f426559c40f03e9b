#include "config/report/report.hpp"
#include "config/values/lr_schedule.hpp"
#include "tests/config/support.hpp"

#include <catch2/catch_test_macros.hpp>

using namespace troupe::config;
using namespace troupe::config::test;

TEST_CASE("a schedule's parameters have values of their own", "[recipe]") {
  auto step = parse_lr_schedule("step");
  CHECK(step.shape == lr_shape::step);
  CHECK(step.every == 30);
  CHECK(step.factor == 0.1);
  auto other = parse_lr_schedule(" step( every = 2.5 , factor=0.5 ) ");
  CHECK(other.every == 2.5);
  CHECK(other.factor == 0.5);
  auto many = parse_lr_schedule("multi-step(at=30+60+80)");
  CHECK(many.at == std::vector<double>{30, 60, 80});
  CHECK(many.factor == 0.1);
  CHECK(parse_lr_schedule("cosine").min == 0);
  CHECK(parse_lr_schedule("cosine(min=1e-4)").min == 1e-4);
  CHECK(parse_lr_schedule("constant").shape == lr_shape::constant);
}

TEST_CASE("a global batch is dealt out to the workers", "[recipe]") {
  auto all = resolved_from(
    {"--simulate", "--workers", "8", "--global-batch-size", "512"});
  CHECK(all.values.training.batch_size == 64);
  // As the run's own file gives both.
  auto both = resolved_from({"--simulate", "--workers", "8", "--batch-size",
                             "64", "--global-batch-size", "512"});
  CHECK(both.values.training.batch_size == 64);
  CHECK(both.values.training == all.values.training);
}

TEST_CASE("a cosine has an end that is known beforehand", "[recipe]") {
  auto epochs = [](std::vector<std::string> more) {
    more.insert(more.end(), {"--simulate", "--target-accuracy", "0.9"});
    return resolved_from(more).values.training.epochs;
  };
  CHECK_FALSE(epochs({}));
  CHECK_FALSE(epochs({"--lr-schedule", "step"}));
  CHECK(epochs({"--lr-schedule", "cosine"}) == default_epochs);
  CHECK_FALSE(epochs({"--lr-schedule", "cosine", "--max-steps", "9"}));
}

TEST_CASE("scores are at steps or at epochs", "[recipe]") {
  auto often = [](const char* text) {
    return resolved_from({"--eval-freq", text}).values.evaluation.eval_freq;
  };
  CHECK(often("7").steps == 7);
  CHECK_FALSE(often("7").each_epoch());
  CHECK(often("epoch").each_epoch());
}
