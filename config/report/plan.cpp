#include "config/report/plan.hpp"

#include "config/patterns/param_groups.hpp"
#include "config/schema/policies.hpp"
#include "config/text/text.hpp"
#include "config/text/value.hpp"
#include "config/values/address.hpp"
#include "config/values/external.hpp"
#include "config/values/outliers.hpp"
#include "config/values/script.hpp"

#include <algorithm>
#include <cstdio>
#include <vector>

namespace troupe::config {

namespace {

std::string labelled(std::string label, const std::string& text) {
  label.resize(12, ' ');
  return label + text + "\n";
}

/// "4 workers", "2 to 4 workers", "4 workers, 2 at least"
std::string workers_of(const cluster_settings& cluster) {
  auto least = std::to_string(cluster.fewest_workers());
  if (!cluster.is_elastic())
    return count(cluster.workers, "worker");
  if (!cluster.max_workers)
    return count(cluster.workers, "worker") + ", " + least + " at least";
  return least + " to " + count(*cluster.max_workers, "worker");
}

std::string cluster_of(const settings& all) {
  const auto& cluster = all.cluster;
  auto result = count(cluster.shards, "parameter server shard") + ", " +
                workers_of(cluster);
  auto unknown = !all.cluster.evaluator && all.what != role::simulate;
  if (unknown)
    result += ", an evaluator if one joins";
  else if (all.cluster.evaluator.value_or(true))
    result += ", evaluator";
  return result + ", checkpoint writer";
}

std::string node_of(const settings& all) {
  switch (all.what) {
  case role::none:
    return "not given";
  case role::simulate:
    return "the whole cluster (--simulate), " + print(all.simulation.clock) +
           " clock";
  default:
    break;
  }
  auto rank = all.cluster.rank;
  return print(all.what) + (rank ? ", rank " + std::to_string(*rank) : "");
}

/// "ssp: the fastest worker is at most 3 clocks ahead of the slowest"
std::string policy_of(const settings& all) {
  return all.policy.name + ": " +
         facts_of(all.policy)
           .sentence(arguments_of(all.policy), all.cluster.workers) +
         (all.policy.staleness_rule == "none"
            ? ""
            : "; stale gradients: " + all.policy.staleness_rule);
}

std::string batch_of(const settings& all) {
  auto batch = all.training.batch_size;
  auto at_once = all.training.micro_batch_size;
  auto replicas = all.parallel.replicas;
  if (all.training.global_batch_size && all.cluster.is_elastic())
    return count(*all.training.global_batch_size, "sample") +
           ", divided among the workers that are there";
  return count(batch, "sample") + " per worker" +
         (replicas > 1 ? ", divided among " + count(replicas, "replica") : "") +
         (at_once ? ", " + std::to_string(*at_once) + " at once" : "") + ", " +
         std::to_string(batch * gradients_per_step(all)) + " per step";
}

std::string traffic_of(const settings& all, const model_size& model) {
  auto width = all.training.dtype == scalar_type::float64 ? 8u : 4u;
  auto sent = model.parameters - model.with_servers;
  auto bytes = (sent + model.statistics) * width;
  auto frozen =
    model.frozen > 0 ? " and " + count(model.frozen, "frozen number") : "";
  return count(model.parameters, "parameter") + frozen +
         "; per worker and step " + size_text(bytes) + " of gradients out, " +
         size_text(bytes) + " of weights back";
}

/// "4 of 431.0 kB to 431.7 kB of weights", and in which processes.
std::string shards_of(const settings& all, std::vector<uint64_t> bytes) {
  auto [least, most] = std::ranges::minmax(bytes);
  auto result = std::to_string(bytes.size()) + " of " + size_text(least);
  if (size_text(most) != size_text(least))
    result += " to " + size_text(most);
  auto remote = has_remote_shards(all) || is_remote_shard(all);
  return result + " of weights each, in " +
         (remote ? "processes of their own"
                 : "the process of the parameter server");
}

std::string learning_rate_of(const training_settings& training) {
  auto result = print(training.lr);
  if (training.lr_schedule != "constant")
    result += " " + training.lr_schedule;
  if (training.warmup_epochs > 0)
    result += " after " + print(training.warmup_epochs) + " epochs of warm-up";
  return result;
}

std::string training_of(const settings& all) {
  const auto& training = all.training;
  auto result = training.optimizer + ", lr " + learning_rate_of(training);
  if (training.optimizer == "sgd" && training.momentum > 0)
    result +=
      (training.nesterov ? ", nesterov momentum " : ", momentum ") +
      print(training.momentum) +
      (all.cluster.is_elastic() && training.momentum_by_workers.value_or(false)
         ? ", less with more workers"
         : "");
  if (training.weight_decay > 0)
    result += ", weight decay " + print(training.weight_decay);
  if (training.weight_decay_exclude != decay_exclusion::none)
    result += " without " + print(training.weight_decay_exclude);
  if (auto groups = parse_param_groups(training.param_groups).size())
    result += ", " + std::to_string(groups) + " of [param-groups]";
  if (training.ema_decay > 0)
    result += ", averaged with " + print(training.ema_decay);
  if (training.clip_norm)
    result += ", gradients of norm " + print(*training.clip_norm) + " at most";
  if (auto factor = parse_outliers(training.outliers))
    result +=
      ", none of a norm above " + print(*factor) + " times that of others";
  if (training.loss != training_settings{}.loss)
    result += ", loss " + training.loss;
  if (training.label_smoothing > 0)
    result += ", labels smoothed by " + print(training.label_smoothing);
  if (training.autocast == autocast_kind::fp16)
    result += ", forward in fp16";
  else if (training.autocast != autocast_kind::none)
    result += ", forward in bf16";
  if (training.autocast == autocast_kind::automatic)
    result += " if that is faster";
  return result + "; " + print(training.dtype) + " on " + training.device +
         "; seed " + std::to_string(training.seed);
}

std::string local_steps_of(const settings& all) {
  const auto& training = all.training;
  auto most = std::to_string(training.local_steps.most);
  auto result = training.local_steps.by_rate ? most + " of the quickest worker"
                                             : most + " of each worker";
  if (is_external(all.data.dataset))
    return result + ", with the optimizer of its program";
  result += ", " + training.inner_optimizer;
  if (training.inner_lr_schedule != "constant")
    result += ", " + training.inner_lr_schedule;
  return result;
}

std::string limits_of(const resolved& all) {
  const auto& training = all.values.training;
  std::vector<std::string> limits;
  if (training.epochs)
    limits.push_back(count(*training.epochs, "epoch") +
                     (all.is_default("training.epochs") ? " (default)" : ""));
  if (training.max_steps)
    limits.push_back(count(*training.max_steps, "step"));
  if (training.target_accuracy)
    limits.push_back("accuracy " + print(*training.target_accuracy));
  if (!training.target.empty())
    limits.push_back(training.target);
  return join(limits, " or ") + (limits.size() > 1 ? ", what is first" : "");
}

std::string evaluations_of(const evaluation_frequency& often) {
  if (often.each_epoch())
    return "at the end of each epoch";
  return "every " + count(often.steps, "step");
}

std::string sharing_of(const data_settings& data) {
  switch (data.sharding) {
  case sharding_kind::leased:
    return "";
  case sharding_kind::fixed:
    return data.drop_last ? "; a share for each worker, the rest left out"
                          : "; a share for each worker, of the same size";
  case sharding_kind::local:
    return "; each worker its own files";
  }
  return "";
}

std::string data_of(const data_settings& data) {
  return data.dataset +
         (data.data_dir.empty() ? "" : " from " + shown(data.data_dir)) +
         sharing_of(data);
}

/// The row about the samples; empty if nobody has looked at the data.
std::string samples_of(const data_settings& settings, const model_size& model) {
  if (!model.data)
    return "";
  if (is_external(settings.dataset))
    return "the processes that compute have the samples";
  const auto& data = *model.data;
  auto result = data.train && data.test
                  ? count(*data.train, "sample") + " for training, " +
                      std::to_string(*data.test) + " for testing"
                  : std::string{"samples are not counted here"};
  if (data.classes)
    return result + "; " + std::to_string(*data.classes) + " classes";
  return result + ", nor classes: sizes are those for " +
         std::to_string(model.classes);
}

/// "the parameter server 12.1 MB at most: optimiser 1.7 MB, ..."
std::string memory_row(const role_memory& of) {
  auto result = of.who + " " + size_text(of.bytes()) + " at most";
  if (of.computes)
    result += " besides forward and backward";
  auto separator = ": ";
  for (const auto& part : of.parts) {
    result += separator + part.what + " " + size_text(part.bytes);
    separator = ", ";
  }
  return result;
}

std::string memory_rows(const settings& all, const model_size& model) {
  std::string result;
  for (const auto& each : memory_of(all, model))
    result += labelled(result.empty() ? "memory" : "", memory_row(each));
  return result;
}

std::string mode_of(const parallel_settings& parallel) {
  auto result = print(parallel.mode);
  if (parallel.mode == parallel_mode::pipeline)
    result +=
      ": " + print(parallel.schedule) + ", " +
      std::to_string(parallel.micro_batches.value_or(default_micro_batches)) +
      " micro-batches";
  return result;
}

std::string run_directory_of(const training_settings& training) {
  auto result = training.train_dir.empty()
                  ? "runs/" + short_name(training.network) + "-<n>, new"
                  : shown(training.train_dir);
  if (training.resume)
    result += "; resume " + shown(*training.resume);
  return result + (training.overwrite ? "; overwrite" : "");
}

} // namespace

std::string plan(const resolved& all, const std::optional<model_size>& model) {
  const auto& values = all.values;
  auto result = labelled("this node", node_of(values)) +
                labelled("cluster", cluster_of(values)) +
                labelled("policy", policy_of(values)) +
                labelled("batch", batch_of(values)) +
                labelled("model", values.training.network);
  for (const auto& note : all.notes)
    result += labelled("", note);
  if (model)
    result += labelled("", traffic_of(values, *model));
  if (values.parallel.mode != parallel_mode::data_parallel)
    result += labelled("mode", mode_of(values.parallel));
  if (model && !model->cut.empty())
    result += labelled("", model->cut);
  if (model && model->shard_bytes.size() > 1)
    result += labelled("shards", shards_of(values, model->shard_bytes));
  result += labelled("training", training_of(values)) +
            labelled("data", data_of(values.data));
  if (auto samples = model ? samples_of(values.data, *model) : "";
      !samples.empty())
    result += labelled("", samples);
  if (model && model->data && !model->data->without.empty())
    result += labelled("", "left out: " + model->data->without);
  if (model)
    result += memory_rows(values, *model);
  if (values.training.local_steps.most > 0)
    result += labelled("local steps", local_steps_of(values));
  result +=
    labelled("until", limits_of(all)) +
    labelled("evaluate", evaluations_of(values.evaluation.eval_freq)) +
    labelled("checkpoint",
             "every " + count(values.checkpoint.checkpoint_freq, "step") +
               ", the newest " + std::to_string(values.checkpoint.keep) +
               " are kept");
  if (values.what != role::simulate)
    result += labelled(
      "meet at", to_string(address{values.cluster.host, values.cluster.port}));
  if (!values.cluster.listen.empty() && values.what == role::ps)
    result += labelled("listens at", values.cluster.listen);
  if (is_remote_shard(values))
    return result;
  return result + labelled("run folder", run_directory_of(values.training));
}

} // namespace troupe::config
