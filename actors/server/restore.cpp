#include "actors/server/restore.hpp"

#include "actors/server/parameter_server.hpp"
#include "actors/server/restore_ledger.hpp"
#include "config/report/report.hpp"
#include "config/schema/policies.hpp"
#include "config/text/failure.hpp"
#include "config/text/version.hpp"
#include "config/values/outliers.hpp"
#include "config/values/staleness_rule.hpp"
#include "messages/run_record.hpp"
#include "models/engine/tensor_memory.hpp"

#include <algorithm>

namespace troupe {

namespace {

cores::stop_limits make_limits(const config::training_settings& settings) {
  return {settings.epochs, settings.max_steps, config::target_of(settings)};
}

at::Tensor first_of(const parameter_server_parts& parts) {
  return parts.from.first ? parts.from.first->weights.trained : at::Tensor{};
}

} // namespace

policies::policy_spec make_policy_spec(const config::settings& settings,
                                       uint32_t rules) {
  return {settings.policy.name, settings.cluster.workers,
          config::arguments_of(settings.policy), rules,
          config::parse_staleness_rule(settings.policy.staleness_rule)};
}

server_model make_server_model(const parameter_server_parts& parts) {
  const auto& settings = parts.settings.training;
  if (parts.settings.simulation.gradients == "none")
    return {};
  shared_work with{parts.remote_shards() + 1, parts.across,
                   parts.settings.what != config::role::simulate};
  auto out = parts.from.resumed
               ? server_model{settings, parts.data.classes, *parts.from.resumed,
                              parts.memory, with}
               : server_model{settings, parts.data.classes, parts.memory, with,
                              first_of(parts)};
  out.keep_frozen(parts.from.frozen);
  // Its layout was taken from a network, which was as large as the weights.
  models::give_back_kept_tensor_memory();
  return out;
}

shard_beginnings make_beginnings(const parameter_server_parts& parts) {
  return make_beginnings(parts.settings.training, parts.data.classes,
                         parts.settings.cluster.shards, parts.from.resumed,
                         first_of(parts));
}

// The policy starts anew at the version of a checkpoint: its members have left
// and join again.
cores::step_scheduler make_step_scheduler(const parameter_server_parts& parts) {
  version start{parts.from.resumed ? parts.from.resumed->manifest.step() : 0};
  const auto& training = parts.settings.training;
  cores::step_scheduler out{
    policies::make_policy(make_policy_spec(parts.settings, parts.rules)),
    make_ledger(parts), cores::stop_rule{make_limits(training)}, start,
    parts.life()};
  out.follow_rules(parts.rules);
  if (auto factor = config::parse_outliers(training.outliers))
    out.watch_norms(*factor);
  if (training.local_steps.by_rate)
    out.pace_rounds(training.local_steps.most);
  if (training.keeps_own_weights())
    out.deal_fragments(
      training.fragments,
      parts.from.resumed
        ? parts.from.resumed->manifest.counters().samples_partly_applied()
        : 0);
  if (const auto& cluster = parts.settings.cluster; cluster.is_elastic())
    out.vary_members(
      {cluster.fewest_workers(), training.global_batch_size.value_or(0)});
  return out;
}

void require_same_run(const parameter_server_parts& parts) {
  const auto& resumed = *parts.from.resumed;
  auto run = description_of(resumed.manifest);
  for (const auto& what :
       config::differences(run, parts.description, config::relation::resume)) {
    if (what.key.empty())
      throw run_error(resumed.path.string() +
                      ": the run is of other data, or "
                      "another network, than there is here: " +
                      config::to_string(what));
    auto deliberate = std::ranges::any_of(
      parts.description.changes, [&](const config::change& one) {
        return one.key == what.key && one.after == what.here;
      });
    if (!deliberate)
      throw usage_error(resumed.path.string() + ": the run has " + what.what +
                        " = " + config::or_not_set(what.run) + ", not " +
                        config::or_not_set(what.here));
  }
}

void require_fitting(const parameter_server_parts& parts) {
  make_step_scheduler(parts);
  make_server_model(parts);
}

void fill_manifest(const parameter_server_parts& parts,
                   const cores::step_scheduler& step_scheduler,
                   proto::Manifest& out) {
  out.set_troupe_version(std::string{config::version()});
  out.set_step(step_scheduler.current().value);
  out.set_run_id(parts.description.run_id);
  out.set_network(parts.settings.training.network);
  out.set_dataset(parts.data.name);
  out.set_classes(static_cast<uint32_t>(parts.data.classes));
  out.set_seed(parts.settings.training.seed);
  put(parts.description, *out.mutable_description());
  out.set_config_digest(config::digest(parts.settings));
  out.set_config_ini(config::to_ini(parts.settings));
  out.set_ps_incarnation(parts.life().value);
  auto spec = make_policy_spec(parts.settings);
  auto* policy = out.mutable_policy();
  policy->set_name(spec.name);
  policy->set_workers(spec.workers);
  for (const auto& [name, value] : spec.parameters)
    (*policy->mutable_parameters())[name] = value;
  policy->set_state(step_scheduler.policy().state());
  fill_ledger(parts, step_scheduler.ledger(), *out.mutable_ledger());
}

} // namespace troupe
