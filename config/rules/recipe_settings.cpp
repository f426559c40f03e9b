#include "config/rules/recipe_settings.hpp"

#include "config/patterns/param_groups.hpp"
#include "config/schema/optimizers.hpp"
#include "config/text/text.hpp"
#include "config/text/value.hpp"
#include "config/values/lr_schedule.hpp"
#include "config/values/outliers.hpp"

namespace troupe::config {

namespace {

void check_batch(const resolved& all) {
  const auto& training = all.values.training;
  if (!training.global_batch_size)
    return;
  auto samples = *training.global_batch_size;
  const auto& cluster = all.values.cluster;
  auto workers = cluster.workers;
  if (cluster.is_elastic()) {
    auto most = cluster.max_workers.value_or(workers);
    if (samples < most)
      refuse(all, "training.global-batch-size",
             "is less than a sample for each of " + std::to_string(most) +
               " workers");
    if (training.batch_size != (samples - 1) / cluster.fewest_workers() + 1)
      refuse(all, "training.batch-size",
             "contradicts global-batch-size, which is divided among the "
             "workers that are there: give one of the two");
    return;
  }
  if (samples % workers != 0)
    refuse(all, "training.global-batch-size",
           "must be a multiple of the number of workers, " +
             std::to_string(workers) +
             (all.values.cluster.evaluator.value_or(false)
                ? "; the process that evaluates is none of them"
                : ""));
  if (training.batch_size != samples / workers)
    refuse(all, "training.batch-size",
           "contradicts global-batch-size, which makes " +
             std::to_string(samples / workers) + " for each of " +
             std::to_string(workers) + " workers: give one of the two");
}

void check_learning_rate(const resolved& all) {
  const auto& training = all.values.training;
  if (parse_lr_schedule(training.lr_schedule).min > training.lr)
    refuse(all, "training.lr-schedule",
           "ends above the learning rate, " + print(training.lr));
  if (training.epochs && training.warmup_epochs > 0 &&
      training.warmup_epochs >= static_cast<double>(*training.epochs))
    refuse(all, "training.warmup-epochs",
           "must be less than the epochs of the run, " +
             std::to_string(*training.epochs));
}

void check_param_groups(const resolved& all) {
  const auto& training = all.values.training;
  for (const auto& [pattern, its] : parse_param_groups(training.param_groups))
    if (auto why = misfit_of(its, training); !why.empty())
      refuse(all, "training.param-groups", in_quotes(pattern) + " " + why);
}

/// Which node computes on a GPU each node says for itself, and for the parts of
/// a network `[placement]` may.
void check_autocast(const resolved& all) {
  const auto& values = all.values;
  const auto& training = values.training;
  if (training.autocast != autocast_kind::bf16 &&
      training.autocast != autocast_kind::fp16)
    return;
  if (training.dtype != scalar_type::float32)
    refuse(all, "training.autocast", "needs --dtype float32");
  if (training.autocast != autocast_kind::fp16)
    return;
  auto trains = values.what == role::simulate || values.what == role::worker;
  auto whole = values.parallel.mode == parallel_mode::data_parallel;
  if (trains && whole && training.device == "cpu")
    refuse(all, "training.autocast",
           "needs a GPU: give --device cuda, or use "
           "bf16");
}

} // namespace

void check_recipe(const resolved& all) {
  const auto& training = all.values.training;
  check_batch(all);
  check_learning_rate(all);
  check_param_groups(all);
  if (training.weight_decay_exclude != decay_exclusion::none &&
      training.weight_decay == 0)
    refuse(all, "training.weight-decay-exclude",
           "needs a weight-decay above 0");
  if (training.label_smoothing > 0 && training.loss != training_settings{}.loss)
    refuse(all, "training.label-smoothing",
           "is for --loss " + training_settings{}.loss);
  if (parse_outliers(training.outliers) &&
      all.values.simulation.gradients == "none")
    refuse(all, "training.outliers",
           "looks at the norms of gradients, and --gradients none has no "
           "gradients: leave one of the two out");
  check_autocast(all);
}

} // namespace troupe::config
