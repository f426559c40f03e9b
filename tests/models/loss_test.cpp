#include "config/text/failure.hpp"
#include "models/engine/compute.hpp"
#include "models/engine/loss.hpp"
#include "tests/support/error_line.hpp"

#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>
#include <torch/torch.h>

using namespace troupe;
using namespace troupe::models;
using namespace troupe::test;

namespace {

const register_loss margin{
  {"test-margin", [](const config::training_settings&) {
     return [](const at::Tensor& scores, const at::Tensor& targets,
               at::Reduction::Reduction how) {
       return at::multi_margin_loss(scores, targets, 1, 1, {}, how);
     };
   }}};

const register_loss unreduced{
  {"test-unreduced", [](const config::training_settings&) {
     return [](const at::Tensor& scores, const at::Tensor& targets,
               at::Reduction::Reduction) {
       return at::multi_margin_loss(scores, targets, 1, 1, {},
                                    at::Reduction::None);
     };
   }}};

config::training_settings with_loss(const std::string& name) {
  config::training_settings out;
  out.loss = name;
  return out;
}

} // namespace

TEST_CASE("shares of the loss of a batch add up to its mean", "[loss]") {
  at::manual_seed(1);
  auto scores = at::randn({12, 5}, at::kDouble);
  auto targets = at::randint(0, 5, {12}, at::kLong);
  auto settings = with_loss("cross-entropy");
  settings.label_smoothing = 0.1;
  for (const auto& each : {settings, with_loss("test-margin")}) {
    training_loss uut{each};
    auto whole = uut.share(scores, targets, 12);
    auto parts =
      uut.share(scores.narrow(0, 0, 5), targets.narrow(0, 0, 5), 12) +
      uut.share(scores.narrow(0, 5, 7), targets.narrow(0, 5, 7), 12);
    CHECK(at::allclose(whole, parts, 1e-14, 1e-14));
  }
  CHECK(at::equal(training_loss{settings}.share(scores, targets, 12),
                  at::cross_entropy_loss(scores, targets, {},
                                         at::Reduction::Mean, -100, 0.1)));
  // Labels are smoothed in training only.
  CHECK(
    at::equal(training_loss{settings}.sum(scores, targets),
              at::cross_entropy_loss(scores, targets, {}, at::Reduction::Sum)));
}

TEST_CASE("a network is trained and scored with the loss of the settings",
          "[loss]") {
  auto settings = with_loss("test-margin");
  settings.network = "lenet";
  compute_engine uut{settings, 10, {}};
  auto count = static_cast<int64_t>(uut.layout().count());
  auto weights = at::empty({count});
  uut.initial_weights(weights, 1);
  at::manual_seed(2);
  auto inputs = at::randn({8, 1, 28, 28});
  auto targets = at::randint(0, 10, {8}, at::kLong);
  auto given = false;
  auto found = uut.evaluate(weights, [&](at::Tensor& x, at::Tensor& y) {
    x = inputs;
    y = targets;
    return !std::exchange(given, true);
  });
  // The weights were just drawn, so all scores are much alike.
  CHECK(found.loss > 0.5);
  CHECK(found.loss < 1.5);
  auto gradient = at::zeros({count});
  auto result = uut.run(weights, inputs, targets, gradient);
  CHECK(result.samples == 8);
  CHECK(result.loss == Catch::Approx(found.loss));
  CHECK(gradient.abs().sum().item<double>() > 0);
}

TEST_CASE("a loss that is no number is refused", "[loss]") {
  auto scores = at::randn({3, 5});
  auto targets = at::zeros({3}, at::kLong);
  CHECK(error_line<run_error>([&] {
          training_loss{with_loss("test-unreduced")}.share(scores, targets, 3);
        }) == "loss 'test-unreduced' gives Float [3] where one number is "
              "needed, the mean or the sum over the samples");
  CHECK_THROWS_AS(training_loss{with_loss("absent")}, usage_error);
}
