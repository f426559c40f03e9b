#include "config/text/failure.hpp"
#include "models/engine/segment_plan.hpp"
#include "models/layout/segments.hpp"
#include "tests/support/error_line.hpp"

#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <map>
#include <numeric>
#include <random>

using namespace troupe;
using namespace troupe::models;
using namespace troupe::test;

namespace {

config::training_settings placed_settings(const std::string& network,
                                          const std::string& rules) {
  config::training_settings out;
  out.network = network;
  out.placement = rules;
  return out;
}

std::shared_ptr<network> made(const std::string& name) {
  return make_network(name, 10, config::scalar_type::float32);
}

std::vector<placed_segment> cut_by(const std::string& rules,
                                   const std::string& network = "lenet") {
  return segments_of(*made(network), config::parse_placement(rules));
}

/// The most expensive run of the best cut, found by trying all.
double best_by_trying(std::span<const double> costs, size_t runs) {
  if (runs == 1)
    return std::accumulate(costs.begin(), costs.end(), 0.0);
  auto best = std::numeric_limits<double>::infinity();
  for (size_t first = 1; first + runs <= costs.size() + 1; ++first) {
    auto head = std::accumulate(
      costs.begin(), costs.begin() + static_cast<ptrdiff_t>(first), 0.0);
    best = std::min(
      best, std::max(head, best_by_trying(costs.subspan(first), runs - 1)));
  }
  return best;
}

} // namespace

TEST_CASE("the first rule that matches a module of a part decides",
          "[models][segments]") {
  using all = std::vector<placed_segment>;
  CHECK((cut_by("") == all{{{0, 4}, 0}}));
  CHECK((cut_by("conv*=ps:0,*=worker") ==
         all{{{0, 2}, 0}, {{2, 4}, std::nullopt}}));
  CHECK((cut_by("conv1=worker,conv*=ps:1,*=ps:1") ==
         all{{{0, 1}, std::nullopt}, {{1, 4}, 1}}));
  CHECK((cut_by("conv1 fc2=worker,*=ps:0") ==
         all{{{0, 1}, std::nullopt}, {{1, 3}, 0}, {{3, 4}, std::nullopt}}));
  // A part of two modules: the first rule that matches either.
  auto stem = cut_by("bn1=worker,*=ps:0", "resnet20");
  CHECK(stem.front() == placed_segment{{0, 1}, std::nullopt});
}

TEST_CASE("stages are the lines, and follow each other", "[models][segments]") {
  auto stages = [](const std::string& rules) {
    return stages_of(*made("lenet"), config::parse_placement(rules));
  };
  CHECK(stages("conv*=worker,*=worker").size() == 2);
  CHECK(error_line<usage_error>([&] {
          stages("conv1 fc1=worker,*=worker");
        }).find("its modules must follow each other") != std::string::npos);
}

TEST_CASE("parameters lie by their owners, shards before the worker",
          "[models][segments]") {
  auto net = made("lenet");
  auto plain = layout_of(*net, placed_settings("lenet", ""));
  auto layout =
    layout_of(*net, placed_settings("lenet", "conv1=worker,conv2=ps:0,*=ps:1"));
  std::vector<std::string> names;
  for (const auto& slot : layout.slots())
    names.push_back(slot.name);
  CHECK(names == std::vector<std::string>{
                   "fc1.weight", "fc1.bias", "fc2.weight", "fc2.bias",
                   "conv2.weight", "conv2.bias", "conv1.weight", "conv1.bias"});
  CHECK(layout.count() == plain.count());
  uint64_t end = 0;
  for (const auto& slot : layout.slots()) {
    CHECK(slot.offset == end);
    end += slot.count;
  }
  CHECK(layout.owned().at(1) == layout.slots()[4].offset);
  CHECK(plain.owned().empty());
  // Names and their order in files stay.
  REQUIRE(layout.state_dict().size() == plain.state_dict().size());
  for (size_t i = 0; i < plain.state_dict().size(); ++i)
    CHECK(layout.state_dict()[i].name == plain.state_dict()[i].name);
  // All with the worker, as in a pipeline: nothing moves.
  CHECK(layout_of(*net, placed_settings("lenet", "conv*=worker,*=worker")) ==
        plain);
}

TEST_CASE("a plan knows what of the buffers is the worker's",
          "[models][segments]") {
  config::settings all;
  all.training = placed_settings("resnet20", "fc=worker,*=ps:0");
  CHECK(make_segment_plan(all, 10, {3, 32, 32}).segments.empty());
  all.parallel.mode = config::parallel_mode::remote_forward;
  auto plan = make_segment_plan(all, 10, {3, 32, 32});
  REQUIRE(plan.segments.size() == 2);
  CHECK(plan.own_parameters == 650); // 64 x 10, and 10.
  CHECK(plan.statistics[0].count == plan.all_statistics);
  CHECK(plan.statistics[1].count == 0);
  CHECK(plan.own().first == plan.parameters - 650);
  CHECK(plan.own().count == 650 + plan.all_statistics);
  // Of the block before it: 64 x 8 x 8 floats a sample, above the images.
  CHECK(plan.most_activations == 64 * 64 * 8 * 8 + plan.all_statistics);
  CHECK(plan.description == "conv1 to layer3.2 on ps:0, fc with the worker");
}

TEST_CASE("cuts by cost are as good as the best of all", "[models][segments]") {
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    std::mt19937_64 random{seed};
    std::vector<double> costs(1 + random() % 8);
    for (auto& x : costs)
      x = static_cast<double>(random() % 100) / 10;
    auto runs = 1 + random() % costs.size();
    auto cuts = balanced_cuts(costs, runs);
    REQUIRE(cuts.size() == runs);
    size_t end = 0;
    double worst = 0;
    for (const auto& [first, last] : cuts) {
      CHECK(first == end);
      CHECK(last > first);
      end = last;
      worst = std::max(
        worst,
        std::accumulate(costs.begin() + static_cast<ptrdiff_t>(first),
                        costs.begin() + static_cast<ptrdiff_t>(last), 0.0));
    }
    CHECK(end == costs.size());
    CHECK(worst < best_by_trying(costs, runs) + 1e-9);
  }
}

TEST_CASE("stages that cost the same are found", "[models][segments]") {
  config::settings all;
  all.training.network = "lenet";
  all.parallel.mode = config::parallel_mode::pipeline;
  all.parallel.stages = 3;
  auto plan = make_segment_plan(all, 10, {1, 28, 28});
  CHECK(plan.segments.size() == 3);
  CHECK(plan.own_parameters == plan.parameters);
  all.parallel.stages = 5;
  CHECK(error_line<usage_error>([&] {
          make_segment_plan(all, 10, {1, 28, 28});
        }) == "--stages 5: network 'lenet' can be cut into at most 4 parts");
}
