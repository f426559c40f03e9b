#include "config/report/memory.hpp"

#include "config/schema/optimizers.hpp"
#include "config/schema/policies.hpp"
#include "config/values/compression.hpp"

#include <algorithm>
#include <numeric>

namespace troupe::config {

namespace {

/// Sizes in bytes.
struct sizes {
  uint64_t width;    ///< Of a number.
  uint64_t version;  ///< Weights with statistics; a gradient, too.
  uint64_t own;      ///< What a worker has of a version.
  uint64_t contexts; ///< Gradients of one worker at its servers.
  uint64_t frozen;   ///< Weights that are not trained.
  uint64_t slots;    ///< All of the optimiser's.
  uint64_t error_feedback;
  uint64_t data;

  sizes(const settings& all, const model_size& of)
    : width(all.training.dtype == scalar_type::float64 ? 8 : 4),
      version((of.parameters + of.statistics) * width),
      own(version - of.with_servers * width),
      contexts(of.with_servers > 0 ? 2 : 1), frozen(of.frozen * width),
      slots(of.parameters * slots_of(all.training) * width),
      error_feedback(
        parse_compression(all.cluster.compression).has_error_feedback()
          ? of.parameters * sizeof(float)
          : 0),
      data(of.data ? of.data->resident : 0) {
    // nop
  }
};

/// Older versions that workers may still compute on.
uint64_t versions_behind(const settings& all) {
  return facts_of(all.policy)
    .versions_behind(arguments_of(all.policy), all.cluster.workers);
}

bool has_evaluator(const settings& all) {
  return all.cluster.evaluator.value_or(true);
}

/// Versions that are being scored, the averages of their weights, and the best
/// of all until it is written.
uint64_t versions_aside(const settings& all) {
  auto keeps = all.checkpoint.keep_best != best_rule::nothing;
  auto averages = all.training.ema_decay > 0;
  return has_evaluator(all) ? 1 + averages + keeps : 0;
}

uint64_t batch_bytes(const model_size& of, uint64_t samples, uint64_t width) {
  constexpr uint64_t label = 8;
  return of.data ? samples * (of.data->sample * width + label) : 0;
}

/// The memory of a process that owns this share of the weights, and the same
/// share of the optimiser's buffers.
role_memory server(std::string who, const settings& all, const sizes& each,
                   double share, bool leads) {
  auto part = [share](uint64_t bytes) {
    return static_cast<uint64_t>(static_cast<double>(bytes) * share);
  };
  role_memory out{std::move(who), {}};
  out.parts = {
    {"versions of the weights",
     part((2 + versions_behind(all)) * each.version)},
    {"optimiser", part(each.slots)},
    {"gradients", part(all.cluster.workers * each.contexts * each.version)}};
  if (!leads)
    return out;
  out.parts.push_back({"frozen weights", each.frozen});
  out.parts.push_back({"evaluation", versions_aside(all) * each.version});
  // One is written while the next waits.
  out.parts.push_back({"checkpoints", 2 * (each.version + each.slots)});
  if (all.data.sharding != sharding_kind::local)
    out.parts.push_back({"data set", each.data});
  return out;
}

void drop_empty(role_memory& from) {
  std::erase_if(from.parts,
                [](const memory_part& part) { return part.bytes == 0; });
}

/// The memory of workers and evaluator that is not already the parameter
/// server's.
std::vector<memory_part> local_participants(const settings& all,
                                            const model_size& of,
                                            const sizes& each) {
  uint64_t workers = all.cluster.workers;
  auto batches =
    workers * 2 * batch_bytes(of, all.training.batch_size, each.width);
  if (has_evaluator(all))
    batches += batch_bytes(of, all.evaluation.eval_batch_size, each.width);
  return {{"gradients of replicas",
           workers * (all.parallel.replicas - 1) * each.version},
          {"batches", batches},
          {"error feedback", workers * 2 * each.error_feedback}};
}

/// Gradients of a worker at a time: a new one is computed while the last one is
/// still being read, and each further replica has one of its own.
uint64_t gradients_of_worker(const settings& all) {
  return 2 + all.parallel.replicas - 1;
}

role_memory worker(const settings& all, const model_size& of,
                   const sizes& each) {
  // New weights arrive while the last ones are being read.
  return {
    "a worker",
    {{"weights", 2 * each.own},
     {"frozen weights", each.frozen},
     {"gradients", gradients_of_worker(all) * each.own},
     {"batches", 2 * batch_bytes(of, all.training.batch_size, each.width)},
     {"error feedback", 2 * each.error_feedback},
     {"data set", each.data}},
    true};
}

role_memory evaluator(const settings& all, const model_size& of,
                      const sizes& each) {
  return {
    "the evaluator",
    {{"weights", 2 * each.version},
     {"frozen weights", each.frozen},
     {"batches", batch_bytes(of, all.evaluation.eval_batch_size, each.width)},
     {"data set", each.data}},
    true};
}

std::vector<role_memory> servers(const settings& all, const model_size& of,
                                 const sizes& each) {
  auto remote = has_remote_shards(all) || is_remote_shard(all);
  if (!remote || of.shard_bytes.size() < 2 || of.parameters == 0)
    return {server("the parameter server", all, each, 1, true)};
  auto share = [&](uint64_t bytes) {
    return static_cast<double>(bytes) /
           static_cast<double>(of.parameters * each.width);
  };
  auto most =
    std::max_element(of.shard_bytes.begin() + 1, of.shard_bytes.end());
  return {server("the lead", all, each, share(of.shard_bytes.front()), true),
          server("another shard", all, each, share(*most), false)};
}

} // namespace

uint64_t role_memory::bytes() const {
  return std::accumulate(
    parts.begin(), parts.end(), uint64_t{0},
    [](uint64_t sum, const memory_part& part) { return sum + part.bytes; });
}

uint64_t slots_of(const training_settings& training) {
  const auto* facts = find_optimizer(training.optimizer);
  auto own = facts == nullptr ? 0 : facts->slots(training);
  return own + (training.ema_decay > 0);
}

std::vector<role_memory> memory_of(const settings& all,
                                   const model_size& size) {
  if (all.simulation.gradients == "none")
    return {};
  sizes each{all, size};
  std::vector<role_memory> out;
  if (all.what == role::simulate) {
    out.push_back(server("this process", all, each, 1, true));
    auto more = local_participants(all, size, each);
    out.back().parts.insert(out.back().parts.end(), more.begin(), more.end());
    if (all.data.sharding == sharding_kind::local)
      out.back().parts.push_back({"data set", each.data});
    out.back().computes = true;
  } else {
    out = servers(all, size, each);
    out.push_back(worker(all, size, each));
    if (has_evaluator(all))
      out.push_back(evaluator(all, size, each));
  }
  std::ranges::for_each(out, drop_empty);
  return out;
}

} // namespace troupe::config
