// Fragments of a network, and the rounds of local steps that exchange them.

#include "config/text/failure.hpp"
#include "models/layout/fragments.hpp"
#include "models/optim/local_steps.hpp"
#include "tests/support/histories.hpp"

#include <catch2/catch_test_macros.hpp>
#include <torch/torch.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

using namespace troupe;
using namespace troupe::models;

namespace {

using parameters = std::vector<std::pair<std::string, std::vector<int64_t>>>;

flat_layout layout_with(const std::vector<int64_t>& sizes) {
  parameters all;
  for (auto size : sizes)
    all.push_back({"p" + std::to_string(all.size()), {size}});
  return flat_layout::from(all, config::scalar_type::float64);
}

std::vector<element_range> ranges_of(const fragments& of) {
  std::vector<element_range> out;
  for (uint32_t k = 0; k < of.count(); ++k)
    out.push_back(of.parameters(k));
  return out;
}

at::Tensor part(const at::Tensor& flat, const element_range& range) {
  return flat.narrow(0, static_cast<int64_t>(range.first),
                     static_cast<int64_t>(range.count));
}

config::training_settings settings_with(uint32_t count) {
  config::training_settings out;
  out.local_steps = 2;
  out.fragments = count;
  out.inner_optimizer = "sgd(momentum=0,lr=0.1)";
  out.epochs = 10;
  out.dtype = config::scalar_type::float64;
  return out;
}

} // namespace

TEST_CASE("fragments are whole parameters, in order, and none is left out") {
  for (uint32_t seed = 0; seed < 300; ++seed) {
    INFO("seed " << seed);
    std::mt19937 draw{seed};
    std::vector<int64_t> sizes(1 + draw() % 12);
    for (auto& size : sizes)
      size = 1 + draw() % (draw() % 3 == 0 ? 1000 : 10);
    auto layout = layout_with(sizes);
    auto count = 1 + static_cast<uint32_t>(draw() % sizes.size());
    fragments uut{layout, count};
    REQUIRE(uut.count() == count);
    uint64_t end = 0;
    for (const auto& range : ranges_of(uut)) {
      CHECK(range.first == end);
      CHECK(range.count > 0);
      end = range.end();
      CHECK(std::ranges::any_of(layout.slots(), [&](const auto& slot) {
        return slot.offset + slot.count == end;
      }));
    }
    CHECK(end == layout.parameter_count());
  }
}

TEST_CASE("fragments are as equal as the parameters allow") {
  CHECK((ranges_of(fragments{layout_with({10, 10, 10, 10}), 2}) ==
         std::vector<element_range>{{0, 20}, {20, 20}}));
  CHECK((ranges_of(fragments{layout_with({100, 1, 1, 1}), 2}) ==
         std::vector<element_range>{{0, 100}, {100, 3}}));
  CHECK((ranges_of(fragments{layout_with({1, 1, 1, 100}), 3}) ==
         std::vector<element_range>{{0, 2}, {2, 1}, {3, 100}}));
}

TEST_CASE("the running statistics go with the last fragment") {
  torch::nn::Sequential net{torch::nn::Linear(8, 4), torch::nn::BatchNorm1d(4)};
  auto layout = flat_layout::from(*net); // 32 + 4 + 4 + 4, and 8 of statistics.
  fragments uut{layout, 2};
  CHECK((uut.all(0) == element_range{0, 32}));
  CHECK((uut.parameters(1) == element_range{32, 12}));
  CHECK((uut.all(1) == element_range{32, 20}));
  CHECK(uut.has_statistics(1));
  CHECK_FALSE(uut.has_statistics(0));
  CHECK(uut.before(0) == 1);
  CHECK(uut.before(1) == 0);
}

TEST_CASE("parts of a buffer have all of each fragment together") {
  for (uint32_t seed = 0; seed < 300; ++seed) {
    INFO("seed " << seed);
    std::mt19937 draw{seed};
    std::vector<int64_t> sizes(1 + draw() % 9);
    for (auto& size : sizes)
      size = 1 + draw() % 300;
    auto layout = layout_with(sizes);
    auto count = 1 + static_cast<uint32_t>(draw() % sizes.size());
    fragments whole{layout, count};
    std::vector<uint64_t> sums(count);
    uint64_t first = 0;
    while (first < layout.count()) {
      auto size = std::min<uint64_t>(1 + draw() % 400, layout.count() - first);
      auto part = whole.within({first, size});
      REQUIRE(part.count() == count);
      uint64_t end = 0;
      for (uint32_t k = 0; k < count; ++k) {
        auto its = part.all(k);
        CHECK(its.first == end);
        end = its.end();
        sums[k] += its.count;
        // Where it lies in the whole.
        CHECK((its.count == 0 || (first + its.first >= whole.all(k).first &&
                                  first + its.end() <= whole.all(k).end())));
      }
      CHECK(end == size);
      CHECK((ranges_of(fragments{part.sizes()}) == ranges_of(part)));
      first += size;
    }
    CHECK((sums == whole.sizes()));
  }
}

TEST_CASE("the statistics are in the part with the end of the parameters") {
  torch::nn::Sequential net{torch::nn::Linear(8, 4), torch::nn::BatchNorm1d(4)};
  fragments whole{flat_layout::from(*net), 2}; // 32, 12 and 8 of statistics.
  using all = std::vector<uint64_t>;
  CHECK((whole.within({0, 40}).sizes() == all{32, 8}));
  CHECK((whole.within({40, 12}).sizes() == all{0, 12}));
  CHECK((whole.within({40, 12}).parameters(1) == element_range{0, 4}));
  CHECK((whole.within({0, 44}).sizes() == all{32, 12}));
  CHECK((whole.within({44, 8}).sizes() == all{0, 8}));
}

TEST_CASE("more fragments than parameters are refused") {
  CHECK_NOTHROW(fragments{layout_with({5, 5}), 2});
  CHECK_THROWS_AS((fragments{layout_with({5, 5}), 3}), usage_error);
}

// With gradients that do not depend on the weights, and without momenta, each
// fragment has at its exchange what a run without fragments has by then.
TEST_CASE("fragments come to the same weights as the whole where all is "
          "linear") {
  constexpr size_t workers = 3;
  constexpr int rounds = 12;
  auto layout = layout_with({7, 30, 2, 11});
  auto size = static_cast<int64_t>(layout.parameter_count());
  for (uint32_t count : {1u, 2u, 4u}) {
    INFO(count << " fragments");
    at::manual_seed(3);
    fragments cuts{layout, count};
    auto server = at::randn({size}, at::kDouble);
    auto expected = server.clone();
    std::vector<local_steps> all;
    for (size_t i = 0; i < workers; ++i) {
      all.emplace_back(settings_with(count), layout);
      all.back().begin(server.clone(), nullptr);
    }
    for (uint32_t round = 0; round < rounds; ++round) {
      auto which = round % count;
      auto sum = at::zeros({size}, at::kDouble);
      for (auto& one : all) {
        if (round > 0 && count > 1) {
          auto before = cuts.before(which);
          one.go_on(nullptr);
          one.merge(before, part(server, cuts.all(before)), 0);
        } else if (round > 0) {
          one.begin(server.clone(), nullptr);
        }
        for (int i = 0; i < 2; ++i) {
          auto gradient = at::randn({size}, at::kDouble);
          one.step(gradient, {});
          expected -= gradient * (0.1 / workers);
        }
        auto made = at::zeros({size}, at::kDouble);
        auto difference = one.finish(made, which);
        CHECK(difference.numel() ==
              static_cast<int64_t>(cuts.all(which).count));
        sum += made;
      }
      server -= sum / static_cast<double>(workers);
      CHECK(at::allclose(part(server, cuts.all(which)),
                         part(expected, cuts.all(which)), 1e-12, 1e-12));
    }
  }
}

TEST_CASE("a fragment of another size is refused") {
  auto layout = layout_with({4, 6});
  local_steps uut{settings_with(2), layout};
  CHECK_THROWS_AS(uut.merge(0, at::zeros({4}, at::kDouble), 0), run_error);
  uut.begin(at::zeros({10}, at::kDouble), nullptr);
  CHECK_THROWS_AS(uut.merge(0, at::zeros({6}, at::kDouble), 0), run_error);
  CHECK_NOTHROW(uut.merge(0, at::zeros({4}, at::kDouble), 0));
}
