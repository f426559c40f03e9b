#include "models/engine/segment_plan.hpp"

#include "config/text/failure.hpp"
#include "models/engine/host_segment.hpp"
#include "models/engine/stopwatch.hpp"
#include "models/guarded.hpp"
#include "models/scalar.hpp"

#include <ATen/ops/full.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/zeros.h>
#include <torch/nn/module.h>
#include <torch/utils.h>

#include <algorithm>
#include <array>
#include <functional>
#include <limits>
#include <string>

namespace troupe::models {

namespace {

constexpr size_t rounds = 5; ///< Of which the first are slower.

double median_seconds_of(const std::function<void()>& f) {
  std::array<double, rounds> all{};
  for (auto& x : all)
    x = seconds_of(f);
  std::ranges::sort(all);
  return all[rounds / 2];
}

uint64_t micro_batch_size_of(const config::settings& settings) {
  const auto& training = settings.training;
  if (settings.parallel.mode != config::parallel_mode::pipeline)
    return training.micro_batch_size.value_or(training.batch_size);
  return training.batch_size / settings.parallel.micro_batches.value_or(
                                 config::default_micro_batches);
}

std::vector<placed_segment> stages_by_cost(const config::settings& settings,
                                           network& net, int64_t classes,
                                           const std::vector<int64_t>& shape) {
  auto stages = *settings.parallel.stages;
  auto parts = std::max<size_t>(net.parts().size(), 1);
  if (stages > parts)
    throw usage_error("--stages " + std::to_string(stages) + ": network '" +
                      settings.training.network + "' can be cut into at most " +
                      std::to_string(parts) +
                      (parts == 1 ? " part" : " parts"));
  auto costs =
    costs_of_parts(settings.training, classes, shape,
                   static_cast<int64_t>(micro_batch_size_of(settings)));
  std::vector<placed_segment> out;
  for (const auto& run : balanced_cuts(costs, stages))
    out.push_back({run, std::nullopt});
  return out;
}

std::vector<placed_segment> segments_by(const config::settings& settings,
                                        network& net, int64_t classes,
                                        const std::vector<int64_t>& shape) {
  auto rules = config::parse_placement(settings.training.placement);
  if (settings.parallel.mode == config::parallel_mode::remote_forward)
    return segments_of(net, rules);
  return rules.empty() ? stages_by_cost(settings, net, classes, shape)
                       : stages_of(net, rules);
}

/// Found by sending one sample through all parts.
uint64_t most_activations(const config::settings& settings, network& net,
                          const segment_plan& plan,
                          const std::vector<int64_t>& shape) {
  auto of = [&](const at::Tensor& x, size_t segment) {
    return plan.micro_batch_size * static_cast<uint64_t>(x.numel()) +
           plan.statistics[segment].count;
  };
  torch::NoGradGuard no_grad;
  net.module().eval();
  std::vector<int64_t> sizes{1};
  sizes.insert(sizes.end(), shape.begin(), shape.end());
  auto x = at::zeros(sizes, to_aten(settings.training.dtype));
  uint64_t out = 0;
  for (size_t k = 0; k < plan.segments.size(); ++k) {
    const auto& segment = plan.segments[k];
    auto before = of(x, k);
    x = guarded("cutting the network", [&] {
      return pass_through(net, segment.parts, x, {{}, {}});
    });
    if (segment.server)
      out = std::max({out, before, of(x, k)});
  }
  return out;
}

} // namespace

segment_plan make_segment_plan(const config::settings& settings,
                               int64_t classes,
                               const std::vector<int64_t>& shape) {
  segment_plan out;
  if (settings.parallel.mode == config::parallel_mode::data_parallel)
    return out;
  const auto& training = settings.training;
  auto net = make_network(training.network, classes, training.dtype);
  auto layout = layout_of(*net, training);
  out.segments = segments_by(settings, *net, classes, shape);
  out.parameters = layout.parameter_count();
  out.all_statistics = layout.count() - layout.parameter_count();
  out.own_parameters = parameters_with_worker(*net, layout, out.segments);
  for (const auto& segment : out.segments)
    out.statistics.push_back(statistics_of(*net, layout, segment.parts));
  out.micro_batch_size = micro_batch_size_of(settings);
  out.most_activations = most_activations(settings, *net, out, shape);
  out.classes = classes;
  out.description = describe(*net, out.segments);
  return out;
}

std::vector<double> costs_of_parts(const config::training_settings& settings,
                                   int64_t classes,
                                   const std::vector<int64_t>& shape,
                                   int64_t samples) {
  return guarded("measuring the parts of the network", [&] {
    std::vector<double> out;
    auto type = to_aten(settings.dtype);
    std::vector<int64_t> sizes{samples};
    sizes.insert(sizes.end(), shape.begin(), shape.end());
    auto x = at::rand(sizes, type);
    at::Tensor weights;
    at::Tensor gradient;
    size_t parts = 1;
    for (size_t k = 0; k < parts; ++k) {
      host_segment part{settings, classes, {}, {k, k + 1}};
      parts = std::max<size_t>(part.net().parts().size(), 1);
      if (!weights.defined()) {
        weights =
          at::full({static_cast<int64_t>(part.layout().count())}, 0.01, type);
        gradient = at::empty_like(weights);
      }
      auto statistics =
        at::full({static_cast<int64_t>(part.statistics().count)}, 1, type);
      at::Tensor next;
      out.push_back(median_seconds_of([&] {
        part.begin({weights, gradient, statistics});
        auto pass = part.forward(x, {}, true);
        part.backward(pass, at::ones_like(pass.outputs), {});
        next = pass.outputs;
        part.end();
      }));
      x = next;
    }
    return out;
  });
}

// Uses dynamic programming over the number of parts that the first runs take.
std::vector<part_range> balanced_cuts(std::span<const double> costs,
                                      size_t runs) {
  auto parts = costs.size();
  constexpr auto never = std::numeric_limits<double>::infinity();
  std::vector best(runs + 1, std::vector<double>(parts + 1, never));
  std::vector begins(runs + 1, std::vector<size_t>(parts + 1));
  best[0][0] = 0;
  for (size_t r = 1; r <= runs; ++r)
    for (size_t end = r; end <= parts; ++end) {
      double last = 0;
      for (auto begin = end; begin-- > r - 1;) {
        last += costs[begin];
        auto worst = std::max(best[r - 1][begin], last);
        if (worst < best[r][end]) {
          best[r][end] = worst;
          begins[r][end] = begin;
        }
      }
    }
  std::vector<part_range> out(runs);
  auto end = parts;
  for (auto r = runs; r > 0; --r) {
    out[r - 1] = {begins[r][end], end};
    end = begins[r][end];
  }
  return out;
}

} // namespace troupe::models
