#include "config/text/failure.hpp"
#include "models/optim/optimizer.hpp"
#include "tests/support/optimizer_step.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <cmath>

using namespace troupe;
using namespace troupe::models;
using namespace troupe::test;

namespace {

using settings = config::training_settings;

constexpr int64_t lamb_count = 40'003; // Several blocks, the last one short.

/// Three parameters, of which the last has no decay and begins with zeros.
const std::vector<std::pair<std::string, std::vector<int64_t>>> lamb_net{
  {"a", {30'000}}, {"b", {100, 100}}, {"c.bias", {3}}};

/// You et al., algorithm 2, one parameter at a time.
struct lamb_by_the_paper {
  const settings& s;
  at::Tensor m, v;

  void step(at::Tensor x, const at::Tensor& g, double decay, int t) {
    m = s.beta1 * m + (1 - s.beta1) * g;
    v = s.beta2 * v + (1 - s.beta2) * g * g;
    auto r = m / (1 - std::pow(s.beta1, t)) /
             (at::sqrt(v / (1 - std::pow(s.beta2, t))) + s.epsilon);
    auto update = r + decay * x;
    auto weights = x.norm().item<double>();
    auto norm = update.norm().item<double>();
    x -= s.lr * (weights > 0 && norm > 0 ? weights / norm : 1) * update;
  }
};

} // namespace

TEST_CASE("lamb steps by the paper's formulas", "[optimizer]") {
  auto dtype =
    GENERATE(config::scalar_type::float32, config::scalar_type::float64);
  auto s = adam_settings("lamb");
  s.weight_decay_exclude = config::decay_exclusion::bias;
  auto layout = flat_layout::from(lamb_net, dtype);
  auto uut = make_optimizer(s, layout);
  REQUIRE(uut->has_factors());
  at::manual_seed(3);
  auto weights = at::randn({lamb_count}, to_aten(dtype));
  layout.view(weights, layout.slots()[2]).zero_();
  auto expected = weights.to(at::kDouble);
  std::vector<lamb_by_the_paper> paper;
  for (const auto& slot : layout.slots()) {
    auto zeros = at::zeros(slot.shape, at::kDouble);
    paper.push_back({s, zeros, zeros});
  }
  for (int t = 1; t <= 10; ++t) {
    auto gradient = at::randn({lamb_count}, to_aten(dtype));
    auto wide = gradient.to(at::kDouble);
    for (size_t i = 0; i < 3; ++i) {
      const auto& slot = layout.slots()[i];
      paper[i].step(layout.view(expected, slot), layout.view(wide, slot),
                    i == 2 ? 0 : s.weight_decay, t);
    }
    step(*uut, weights, gradient, s.lr, 3);
  }
  auto tolerance = dtype == config::scalar_type::float32 ? 1e-5 : 1e-13;
  CHECK(at::allclose(weights.to(at::kDouble), expected, tolerance, tolerance));
}

TEST_CASE("lamb has the same bits with any cut and any number of threads",
          "[optimizer]") {
  auto s = adam_settings("lamb");
  auto layout = flat_layout::from(lamb_net, config::scalar_type::float32);
  auto groups = groups_of(layout, s);
  auto whole = make_optimizer(s, layout);
  struct cut_part {
    element_range range;
    std::unique_ptr<optimizer> uut;
    at::Tensor of(const at::Tensor& x) const {
      return x.narrow(0, static_cast<int64_t>(range.first),
                      static_cast<int64_t>(range.count));
    }
  };
  std::vector<cut_part> parts;
  for (const auto& range : cut(lamb_count, sizeof(float), 3)) {
    auto own = flat_layout::from(
      {{"range", {static_cast<int64_t>(range.count)}}}, layout.dtype());
    parts.push_back({range, make_optimizer(s, own, within(groups, range))});
  }
  at::manual_seed(4);
  auto weights = at::randn({lamb_count});
  auto of_parts = weights.clone();
  std::vector<double> shares{32, 16};
  lanes across{3};
  for (int i = 0; i < 5; ++i) {
    std::vector<at::Tensor> gradients{at::randn({lamb_count}),
                                      at::randn({lamb_count})};
    step(*whole, weights, weights, gradients, shares, s.lr, 3);
    std::vector<parameter_squares> all;
    auto gradients_of = [&](const cut_part& part) {
      return std::vector{part.of(gradients[0]), part.of(gradients[1])};
    };
    for (const auto& part : parts)
      for (auto& one : part.uut->measure(part.of(of_parts), gradients_of(part),
                                         shares, 1, across))
        all.push_back(std::move(one));
    auto factors = step_factors(all, 3);
    for (const auto& part : parts)
      part.uut->step(part.of(of_parts), part.of(of_parts), gradients_of(part),
                     shares, s.lr, 1, across, factors);
    REQUIRE(at::equal(weights, of_parts));
  }
  auto in = at::randn({lamb_count});
  CHECK_THROWS_AS(whole->step(in, in, {&in, 1}, {shares.data(), 1}, 0.1),
                  run_error);
}
