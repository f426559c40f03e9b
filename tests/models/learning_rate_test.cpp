// Figures worked out by hand; at whole epochs they are those of PyTorch's
// StepLR, MultiStepLR, CosineAnnealingLR and LinearLR.

#include "models/optim/learning_rate.hpp"

#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>

using namespace troupe;
using namespace troupe::models;

using Catch::Approx;

namespace {

config::training_settings with(const char* schedule) {
  config::training_settings out;
  out.lr = 0.1;
  out.lr_schedule = schedule;
  return out;
}

double rate_at(const config::training_settings& s, double epochs,
               uint64_t steps = 0) {
  return learning_rate{s}.at({epochs, steps});
}

} // namespace

TEST_CASE("a constant rate is the one that was given", "[lr]") {
  auto s = with("constant");
  for (auto epochs : {0.0, 0.5, 1000.0})
    CHECK(rate_at(s, epochs) == 0.1);
}

TEST_CASE("steps are at multiples of so many epochs", "[lr]") {
  auto s = with("step");
  CHECK(rate_at(s, 0) == 0.1);
  CHECK(rate_at(s, 29.99) == 0.1);
  CHECK(rate_at(s, 30) == Approx(0.01));
  CHECK(rate_at(s, 59.99) == Approx(0.01));
  CHECK(rate_at(s, 60) == Approx(0.001));
  // The quotient 0.3 / 0.1 is a little less than 3.
  auto often = with("step(every=0.1,factor=0.5)");
  CHECK(rate_at(often, 0.3) == Approx(0.0125));
  CHECK(rate_at(often, 0.29) == Approx(0.025));
}

TEST_CASE("steps are at the epochs that are named", "[lr]") {
  auto s = with("multi-step(at=30+60+80,factor=0.1)");
  CHECK(rate_at(s, 29.99) == 0.1);
  CHECK(rate_at(s, 30) == Approx(0.01));
  CHECK(rate_at(s, 79.99) == Approx(0.001));
  CHECK(rate_at(s, 80) == Approx(0.0001));
  CHECK(rate_at(s, 1000) == Approx(0.0001));
}

TEST_CASE("a cosine falls to its end at that of the run", "[lr]") {
  auto s = with("cosine");
  s.epochs = 10;
  CHECK(rate_at(s, 0) == 0.1);
  CHECK(rate_at(s, 2) == Approx(0.0904508497));
  CHECK(rate_at(s, 5) == Approx(0.05));
  CHECK(rate_at(s, 10) == 0);
  CHECK(rate_at(s, 11) == 0);
  s.lr_schedule = "cosine(min=0.02)";
  CHECK(rate_at(s, 5) == Approx(0.06));
  CHECK(rate_at(s, 10) == 0.02);
}

TEST_CASE("without an end in epochs a cosine goes to the last step", "[lr]") {
  auto s = with("cosine");
  s.max_steps = 100;
  CHECK(rate_at(s, 3, 0) == 0.1);
  CHECK(rate_at(s, 3, 50) == Approx(0.05));
  CHECK(rate_at(s, 9, 100) == 0);
  // A replay of that run that ends early has its rates.
  s.schedule_steps = 100;
  s.max_steps = 50;
  CHECK(rate_at(s, 3, 50) == Approx(0.05));
  // Epochs come first; and fifty when nothing is given.
  s.epochs = 10;
  CHECK(rate_at(s, 2, 50) == Approx(0.0904508497));
  CHECK(rate_at(with("cosine"), 25) == Approx(0.05));
}

TEST_CASE("warm-up grows from a hundredth, as torchvision's reference",
          "[lr]") {
  auto s = with("constant");
  s.warmup_epochs = 5;
  CHECK(rate_at(s, 0) == Approx(0.001));
  CHECK(rate_at(s, 1) == Approx(0.0208));
  CHECK(rate_at(s, 2.5) == Approx(0.0505));
  CHECK(rate_at(s, 5) == 0.1);
}

TEST_CASE("a cosine spans what the warm-up leaves", "[lr]") {
  auto s = with("cosine");
  s.warmup_epochs = 5;
  s.epochs = 15;
  CHECK(rate_at(s, 2.5) == Approx(0.0505));
  CHECK(rate_at(s, 5) == Approx(0.1));
  CHECK(rate_at(s, 10) == Approx(0.05));
  CHECK(rate_at(s, 15) == 0);
  // Ten steps an epoch so far: the run will have ten epochs.
  auto t = with("cosine");
  t.warmup_epochs = 1;
  t.max_steps = 100;
  CHECK(rate_at(t, 0, 0) == Approx(0.001));
  CHECK(rate_at(t, 1, 10) == Approx(0.1));
  CHECK(rate_at(t, 5.5, 55) == Approx(0.05));
  CHECK(rate_at(t, 10, 100) == 0);
}

TEST_CASE("milestones count from the start of the run, not from the warm-up",
          "[lr]") {
  auto s = with("step(every=30)");
  s.warmup_epochs = 5;
  CHECK(rate_at(s, 29.9) == 0.1);
  CHECK(rate_at(s, 30) == Approx(0.01));
}
