// Virtual runs with real gradients, beside a plain LibTorch loop over the same
// batches with as many updates, in the same process and on the same thread.

#include "apps/lab/virtual_run.hpp"
#include "apps/scratch_folder.hpp"
#include "bench/topics.hpp"
#include "config/commands/command_line.hpp"
#include "data/dataset.hpp"
#include "data/sampling/permutation.hpp"
#include "messages/lease.hpp"
#include "models/network.hpp"

#include <ATen/Parallel.h>
#include <nlohmann/json.hpp>
#include <torch/nn/module.h>
#include <torch/optim/sgd.h>

#include <algorithm>
#include <cmath>
#include <fstream>

namespace troupe::bench {

namespace {

constexpr uint64_t virtual_workers = 4;

/// A run: so many updates, each of so many gradients.
struct shape {
  const char* policy;
  uint64_t updates;
  uint64_t gradients; ///< Of an update.
};

config::resolved settings_of(const shape& extent,
                             const std::string& train_dir) {
  std::vector<std::string> flags{"--simulate",
                                 "--clock",
                                 "virtual",
                                 "--evaluator",
                                 "false",
                                 "--workers",
                                 std::to_string(virtual_workers),
                                 "--policy",
                                 extent.policy,
                                 "--max-steps",
                                 std::to_string(extent.updates),
                                 "--train-dir",
                                 train_dir};
  return config::parse_command_line(flags, {}).config;
}

/// The mean of the losses of all updates.
double mean_loss(const std::filesystem::path& train_dir) {
  std::ifstream in{train_dir / "metrics.jsonl"};
  double sum = 0;
  double updates = 0;
  for (std::string text; std::getline(in, text);) {
    auto line = nlohmann::json::parse(text);
    if (line["kind"] != "update")
      continue;
    sum += line["loss"].get<double>();
    ++updates;
  }
  return sum / updates;
}

/// Returns the mean loss of all updates.
double run_in_virtual_time(const shape& extent) {
  app::scratch_folder scratch;
  auto run = settings_of(extent, scratch.path());
  app::virtual_run_options options;
  options.silent = true;
  auto how = app::run_in_virtual_time(run, options);
  if (how.failed())
    throw run_error("the virtual run failed: " + how.line);
  return mean_loss(scratch.path());
}

/// Declares images of one channel to be channels-last, which have the same
/// memory layout. LibTorch then uses the faster kernels, as in Troupe.
at::Tensor channels_last(const at::Tensor& inputs) {
  auto height = inputs.size(2);
  auto width = inputs.size(3);
  return inputs.as_strided(inputs.sizes(), {height * width, 1, width, 1});
}

/// The leases of a run in which none is returned: all samples in order, the
/// last lease of an epoch being short.
class walk {
public:
  walk(uint64_t samples, uint64_t batch) : samples_(samples), batch_(batch) {
    // nop
  }

  std::vector<lease> next(uint64_t count) {
    std::vector<lease> out;
    for (uint64_t i = 0; i < count; ++i) {
      auto size = std::min(batch_, samples_ - first_);
      out.push_back({lease_id{0}, epoch_, first_, size});
      first_ += size;
      if (first_ == samples_)
        first_ = 0, ++epoch_;
    }
    return out;
  }

private:
  uint64_t samples_;
  uint64_t batch_;
  uint64_t epoch_ = 0;
  uint64_t first_ = 0;
};

/// The batches of a run, and a model to train on them.
struct scene {
  explicit scene(const shape& extent)
    : settings(settings_of(extent, "/unused").values),
      train(data::load_dataset(settings.data, settings.training.seed).train),
      order(settings.training.seed, train->size()),
      through(train->size(), settings.training.batch_size) {
    // nop
  }

  std::shared_ptr<models::network> make_network() const {
    auto net = models::make_network(settings.training.network, train->classes(),
                                    settings.training.dtype);
    models::initialise(*net, settings.training.seed);
    return net;
  }

  torch::optim::SGD make_optimizer(models::network& net) const {
    return torch::optim::SGD{net.module().parameters(),
                             torch::optim::SGDOptions(settings.training.lr)
                               .momentum(settings.training.momentum)};
  }

  /// Adds the gradient of a batch, times the batch's share of the `samples` of
  /// an update, to the network's gradients. Returns the loss times the same
  /// share.
  double compute(models::network& net, const lease& part, double samples) {
    auto batch =
      train->gather(order.lease_indices(part.epoch, part.first, part.count),
                    settings.training.dtype);
    auto scores = net.forward(channels_last(batch.inputs));
    auto loss = at::cross_entropy_loss(scores, batch.targets) *
                (static_cast<double>(part.count) / samples);
    loss.backward();
    return loss.item<double>();
  }

  config::settings settings;
  std::shared_ptr<const data::dataset> train;
  data::epoch_order order;
  walk through;
};

double samples_of(const std::vector<lease>& parts) {
  double out = 0;
  for (const auto& part : parts)
    out += static_cast<double>(part.count);
  return out;
}

/// The training as one would write it with LibTorch alone: the gradients of an
/// update are summed where they arise, and none is stale. Returns the mean loss
/// of all updates.
double run_bare(const shape& extent) {
  at::set_num_threads(1);
  scene on{extent};
  auto net = on.make_network();
  auto optimizer = on.make_optimizer(*net);
  double sum_of_losses = 0;
  for (uint64_t update = 0; update < extent.updates; ++update) {
    auto parts = on.through.next(extent.gradients);
    auto samples = samples_of(parts);
    optimizer.zero_grad();
    for (const auto& part : parts)
      sum_of_losses += on.compute(*net, part, samples);
    optimizer.step();
  }
  return sum_of_losses / static_cast<double>(extent.updates);
}

/// The same for workers that have a model each and compute in turn, as Troupe's
/// do. Each gradient lies in memory of its own until it is used, and so do each
/// worker's copies of the weights. A gradient is applied only to the weights
/// themselves.
double run_bare_cluster(const shape& extent) {
  at::set_num_threads(1);
  scene on{extent};
  auto weights = on.make_network();
  auto optimizer = on.make_optimizer(*weights);
  std::vector<std::shared_ptr<models::network>> cluster;
  for (uint64_t i = 0; i < virtual_workers; ++i) {
    cluster.push_back(on.make_network());
    for (auto& parameter : cluster.back()->module().parameters())
      parameter.mutable_grad() = at::zeros_like(parameter);
  }
  auto targets = weights->module().parameters();
  auto take_push = [&](models::network& from, bool first) {
    auto parameters = from.module().parameters();
    for (size_t i = 0; i < targets.size(); ++i)
      if (first)
        targets[i].mutable_grad() = parameters[i].grad();
      else
        targets[i].mutable_grad().add_(parameters[i].grad());
  };
  auto hand_out = [&](models::network& to) {
    at::NoGradGuard no_grad;
    auto parameters = to.module().parameters();
    for (size_t i = 0; i < targets.size(); ++i) {
      parameters[i].copy_(targets[i]);
      parameters[i].mutable_grad().zero_();
    }
  };
  double sum_of_losses = 0;
  uint64_t turn = 0;
  for (uint64_t update = 0; update < extent.updates; ++update) {
    auto parts = on.through.next(extent.gradients);
    auto samples = samples_of(parts);
    auto first = turn;
    for (const auto& part : parts)
      sum_of_losses +=
        on.compute(*cluster[turn++ % virtual_workers], part, samples);
    for (auto who = first; who < turn; ++who)
      take_push(*cluster[who % virtual_workers], who == first);
    optimizer.step();
    for (auto who = first; who < turn; ++who)
      hand_out(*cluster[who % virtual_workers]);
  }
  return sum_of_losses / static_cast<double>(extent.updates);
}

/// Without staleness both must have learned the same. All updates are compared:
/// the losses of single ones come so close to 0 that the order of sums matters.
void require_same(double ours, double theirs) {
  if (!(std::abs(ours - theirs) <= 0.02 * std::abs(theirs)))
    throw run_error("the virtual run and the plain loop differ: mean loss " +
                    std::to_string(ours) + " and " + std::to_string(theirs));
}

void measure(const shape& extent, const setting& how, report& out) {
  size_t rounds = how.quick ? 1 : 5;
  double ours = 0;
  double theirs = 0;
  double of_a_cluster = 0;
  auto gradients = static_cast<double>(extent.updates * extent.gradients);
  auto ms = [=](double seconds) {
    return seconds * 1e3 / gradients;
  };
  auto found = alternate(rounds,
                         {[&] { ours = run_in_virtual_time(extent); },
                          [&] { of_a_cluster = run_bare_cluster(extent); },
                          [&] {
                            theirs = run_bare(extent);
                          }},
                         [&](size_t round) {
                           out.progress(std::string{extent.policy} +
                                        ", round " + std::to_string(round + 1) +
                                        " of " + std::to_string(rounds));
                         });
  if (extent.gradients > 1) {
    require_same(ours, theirs);
    require_same(of_a_cluster, theirs);
  }
  auto name = "simulate/real_gradients/" + std::string{extent.policy};
  auto add = [&](const std::string& unit, const char* reference, double value,
                 double reference_value) {
    out.add(compare(name + unit, ms(value), "ms", reference,
                    ms(reference_value), better::lower));
  };
  add("/wall", "four LibTorch models in turn", found[0].seconds,
      found[1].seconds);
  add("/cpu", "four LibTorch models in turn", found[0].cpu_seconds,
      found[1].cpu_seconds);
  add("/wall/one_model", "one LibTorch model", found[0].seconds,
      found[2].seconds);
  add("/cpu/one_model", "one LibTorch model", found[0].cpu_seconds,
      found[2].cpu_seconds);
}

} // namespace

void measure_overhead(const setting& how, report& out) {
  out.begin("a gradient of LeNet, batch 64, in a virtual run of 4 workers "
            "(target: at most 5 % more, a ratio of 0.952)");
  uint64_t gradients = how.quick ? 16 : 480;
  measure({"sync", gradients / virtual_workers, virtual_workers}, how, out);
  measure({"async", gradients, 1}, how, out);
}

} // namespace troupe::bench
