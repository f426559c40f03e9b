#include "config/rules/validate.hpp"

#include "config/patterns/param_groups.hpp"
#include "config/patterns/placement.hpp"
#include "config/rules/external_compute.hpp"
#include "config/rules/local_steps.hpp"
#include "config/rules/metric_settings.hpp"
#include "config/rules/network_settings.hpp"
#include "config/rules/recipe_settings.hpp"
#include "config/rules/small_networks.hpp"
#include "config/rules/varying_workers.hpp"
#include "config/schema/known_names.hpp"
#include "config/schema/optimizers.hpp"
#include "config/schema/paths.hpp"
#include "config/schema/policies.hpp"
#include "config/text/failure.hpp"
#include "config/text/value.hpp"
#include "config/values/faults.hpp"
#include "config/values/lr_schedule.hpp"
#include "config/values/script.hpp"
#include "config/values/tar_shards.hpp"

#include <algorithm>

namespace troupe::config {

namespace {

/// Whether this node has the settings of the whole cluster.
bool sets_all(const settings& all) {
  return all.what == role::simulate ||
         (all.what == role::ps && !is_remote_shard(all));
}

void check_device(const resolved& all) {
  const auto& values = all.values;
  if (values.training.device == "cpu")
    return;
  // A file of settings is for all nodes; a flag is for this one.
  auto by_flag = all.origin_of("training.device").from == origin::source::flag;
  if (by_flag && values.training.compute == compute_kind::external &&
      values.what != role::ps)
    refuse(all, "training.device",
           "the program that computes chooses its device itself: leave it out");
}

void check_policy(const resolved& all) {
  const auto& policy = all.values.policy;
  const auto& object = facts_of(policy).object;
  if (!object)
    return;
  const auto& cluster = all.values.cluster;
  auto least = cluster.min_workers && cluster.is_elastic()
                 ? *cluster.min_workers
                 : cluster.workers;
  if (auto found = object(arguments_of(policy), least))
    refuse(all, ("policy." + found->parameter).c_str(), found->why);
}

void check_rank(const resolved& all) {
  const auto& cluster = all.values.cluster;
  // A remote shard may leave the number of shards to the lead.
  auto knows =
    !is_remote_shard(all.values) || all.is_explicit("cluster.shards");
  if (all.values.what == role::ps && knows &&
      cluster.rank.value_or(0) >= cluster.shards)
    refuse(all, "cluster.rank",
           "must be below the number of shards, " +
             std::to_string(cluster.shards));
  if (is_remote_shard(all.values) && !is_peer(all.values) &&
      cluster.listen.empty())
    refuse(all, "cluster.rank",
           "a shard in a process of its own has an address of its own: give it "
           "with --listen HOST:PORT");
}

void check_training(const resolved& all) {
  const auto& training = all.values.training;
  require_allowed(training);
  if (is_script(training.network) && training.dtype != scalar_type::float32)
    refuse(all, "training.dtype", "scripts are trained as float32 alone");
  if (training.nesterov && training.momentum == 0)
    refuse(all, "training.nesterov", "needs a momentum above 0");
  if (!training.init_skip.empty() && training.init.empty())
    refuse(all, "training.init-skip", "needs the file of --init");
  if (training.resume && training.overwrite)
    refuse(all, "training.overwrite",
           "contradicts resume: give one of the two");
}

/// Every node that reads samples needs the files; the parameter server reads
/// none.
void check_data(const resolved& all) {
  const auto& data = all.values.data;
  auto what = all.values.what;
  auto computes =
    what == role::simulate || what == role::worker || what == role::evaluator;
  if (computes && reads_files(data.dataset) && data.data_dir.empty())
    refuse(all, "data.dataset",
           "is read from files: give their folder with --data-dir");
  auto decides = what == role::simulate || what == role::ps;
  auto is_theirs =
    data.image_size == small_side && has_small_images(data.dataset);
  if (decides && data.image_size != data_settings{}.image_size && !is_theirs &&
      data.dataset != "folder" && !is_tar_shards(data.dataset))
    refuse(all, "data.image-size",
           "is for images of any size (folder, tar); those of " + data.dataset +
             " have theirs");
}

/// Refuses what stages and activations cannot be combined with.
void check_segments(const resolved& all) {
  const auto& values = all.values;
  auto mode = print(values.parallel.mode);
  if (values.cluster.compression != "none")
    refuse(all, "cluster.compression",
           "is for gradients on their way to the server; with --mode " + mode +
             " leave it out");
  if (values.simulation.gradients == "none")
    refuse(all, "simulation.gradients",
           "computes no network that could be cut: leave --mode " + mode +
             " out");
  const auto* wanted = find_path(values.cluster.transport);
  if (wanted != nullptr && wanted->needs_gpu)
    refuse(all, "cluster.transport",
           "sends from GPU to GPU, and parts of a network have their gradients "
           "in the host's memory; with --mode " +
             mode + " use auto");
}

void check_pipeline(const resolved& all) {
  const auto& parallel = all.values.parallel;
  const auto& training = all.values.training;
  auto rules = parse_placement(training.placement);
  if (rules.empty() && !parallel.stages)
    refuse(all, "parallel.mode",
           "needs to know where the network is cut: give --stages K, or a "
           "line of [placement] for each stage");
  if (!rules.empty() && parallel.stages && *parallel.stages != rules.size())
    refuse(all, "parallel.stages",
           "contradicts [placement], which has " +
             std::to_string(rules.size()) + " lines, one for each stage");
  if (training.micro_batch_size)
    refuse(all, "training.micro-batch-size",
           "is for a network in one piece; a pipeline has --micro-batches");
  auto parts = parallel.micro_batches.value_or(default_micro_batches);
  if (training.batch_size % parts != 0)
    refuse(all, "parallel.micro-batches",
           "must divide the batch of " + std::to_string(training.batch_size) +
             " samples");
}

void check_joining(const resolved& all) {
  const auto& values = all.values;
  auto peers = values.cluster.topology == topology_kind::peers;
  if (values.cluster.join && (!peers || values.what != role::worker))
    refuse(all, "cluster.join",
           "is for a node that joins peers: give --role auto --topology peers");
  if (!values.cluster.reshard_on_join || !sets_all(values))
    return;
  if (!is_peer(values))
    refuse(all, "cluster.reshard-on-join",
           "is for peers in processes of their own: give --role auto "
           "--topology peers");
  if (values.data.sharding != sharding_kind::leased)
    refuse(all, "cluster.reshard-on-join",
           "would give the samples of a rank to another: leave --sharding out");
}

/// Checks that each shard owns parts of the network, where modules live on
/// shards.
void check_owners(const resolved& all) {
  const auto& values = all.values;
  auto rules = parse_placement(values.training.placement);
  for (const auto& rule : rules)
    if (rule.server.value_or(0) >= values.cluster.shards)
      refuse(all, "parallel.placement",
             "ps:" + std::to_string(*rule.server) + " is not one of the " +
               std::to_string(values.cluster.shards) + " shards");
  if (!has_remote_shards(values) || !may_have_modules(values))
    return;
  // Without rules all modules are on the first shard.
  for (uint32_t rank = rules.empty() ? 1 : 0; rank < values.cluster.shards;
       ++rank)
    if (std::ranges::none_of(rules, [rank](const placement_rule& rule) {
          return rule.server.value_or(0) == rank;
        }))
      refuse(all, "parallel.placement",
             "gives no part of the network to the shard of rank " +
               std::to_string(rank) +
               ": add a line, as in 'fc* = ps:" + std::to_string(rank) + "'");
  if (!values.training.freeze.empty())
    refuse(all, "training.freeze",
           "needs all modules of servers in one process: leave --rank out");
}

/// Only who decides for the cluster knows how the network is cut.
void check_parallel(const resolved& all) {
  const auto& values = all.values;
  if (!sets_all(values))
    return;
  auto mode = values.parallel.mode;
  if (mode != parallel_mode::pipeline)
    for (auto id :
         {"parallel.stages", "parallel.micro-batches", "parallel.schedule"})
      if (key_of(id).get(values) != key_of(id).get(settings{}))
        refuse(all, id, "is for --mode pipeline");
  if (values.cluster.topology == topology_kind::peers &&
      (mode == parallel_mode::remote_forward ||
       !values.training.placement.empty()))
    refuse(all, "cluster.topology",
           "peers compute the whole network each, and no server computes for "
           "them: leave --mode and [placement] out");
  if (mode == parallel_mode::data_parallel) {
    if (!values.training.placement.empty())
      refuse(all, "parallel.placement",
             "is for --mode remote-forward and --mode pipeline");
    if (values.parallel.replicas > values.training.batch_size)
      refuse(all, "parallel.replicas",
             "share a batch, and that has " +
               std::to_string(values.training.batch_size) +
               " samples: use as many replicas at most");
    return;
  }
  if (values.parallel.replicas > 1)
    refuse(all, "parallel.replicas",
           "are copies of the whole network; with --mode " + print(mode) +
             " leave it out");
  check_segments(all);
  if (mode == parallel_mode::pipeline)
    check_pipeline(all);
  check_owners(all);
}

/// Only who decides for the cluster knows how the data is shared out.
void check_sharding(const resolved& all) {
  const auto& values = all.values;
  const auto& data = values.data;
  if (!sets_all(values))
    return;
  if (data.drop_last && data.sharding != sharding_kind::fixed)
    refuse(all, "data.drop-last",
           "is for shares of one size: use it with --sharding static");
  if (data.sharding != sharding_kind::local)
    return;
  if (!reads_files(data.dataset))
    refuse(all, "data.sharding",
           "needs files that differ from node to node; those of the data set " +
             data.dataset + " are built in: use static");
  if (values.what == role::simulate && values.simulation.gradients == "none")
    refuse(all, "data.sharding",
           "needs samples, and --gradients none has none: use static");
}

void check_transport(const resolved& all) {
  const auto* wanted = find_path(all.values.cluster.transport);
  if (wanted != nullptr && wanted->across == reach::process &&
      all.values.what != role::simulate)
    refuse(all, "cluster.transport",
           "connects actors of one process only (--simulate); use auto");
}

void check_compression(const resolved& all) {
  if (all.values.cluster.compression != "none" &&
      all.values.training.dtype != scalar_type::float32)
    refuse(all, "cluster.compression",
           "packs float32 alone; leave it out with "
           "--dtype float64");
}

/// Real nodes ignore the section, so that one file may serve both.
void check_simulation(const resolved& all) {
  const auto& values = all.values;
  const auto& what = values.simulation;
  auto virtual_clock = what.clock == clock_kind::virtual_time;
  if (values.what != role::simulate) {
    if (virtual_clock)
      refuse(all, "simulation.clock",
             "is for the whole cluster in one process: use it with --simulate");
    return;
  }
  if (!virtual_clock)
    for (auto id : {"simulation.compute-time", "simulation.link-rate",
                    "simulation.link-latency", "simulation.gradients",
                    "simulation.faults", "simulation.policy-changes"})
      if (key_of(id).get(values) != key_of(id).get(settings{}))
        refuse(all, id, "needs the virtual clock: add --clock virtual");
  if (!what.faults.empty() && !parse_random_faults(what.faults))
    read_faults(what.faults, values.cluster.workers);
  if (what.gradients != "none")
    return;
  if (!values.training.max_steps)
    refuse(all, "simulation.gradients",
           "never learns and has no epochs: say when to stop with --max-steps");
  for (auto id : {"training.epochs", "training.target-accuracy",
                  "training.target", "training.resume", "training.init",
                  "training.freeze", "cluster.evaluator"})
    if (all.is_explicit(id) && key_of(id).get(values) != "false")
      refuse(all, id, "means nothing with --gradients none");
}

/// An evaluator that follows a folder scores what the run has saved.
void check_following(const resolved& all) {
  if (all.values.what != role::evaluator)
    return;
  const auto& evaluation = all.values.evaluation;
  if (evaluation.follow == "ps") {
    if (evaluation.every)
      refuse(all, "evaluation.every",
             "is for checkpoints of a folder: give it with --follow DIR, or "
             "eval-freq at the parameter server");
    return;
  }
  // A file of settings is for all nodes; a flag is for this one.
  for (auto id : {"evaluation.eval-freq", "evaluation.eval-timeout",
                  "checkpoint.checkpoint-freq", "checkpoint.keep"})
    if (all.origin_of(id).from == origin::source::flag)
      refuse(all, id,
             "means nothing with --follow " + evaluation.follow +
               ": the newest checkpoint there is scored, or with --every N "
               "each of a step that N divides");
}

} // namespace

void validate(const resolved& all) {
  check_device(all);
  check_workers(all);
  check_policy(all);
  check_staleness_rule(all);
  check_local_steps(all, sets_all(all.values));
  check_rank(all);
  check_training(all);
  if (sets_all(all.values))
    check_recipe(all);
  check_parallel(all);
  check_joining(all);
  check_data(all);
  check_sharding(all);
  check_transport(all);
  check_compression(all);
  check_simulation(all);
  check_metrics(all);
  check_following(all);
  check_network(all);
  check_external(all);
}

} // namespace troupe::config
