#include "apps/trainer_node/server_plan.hpp"

#include "actors/server/restore.hpp"
#include "apps/startup/resources.hpp"
#include "apps/trainer_node/segment_places.hpp"
#include "apps/trainer_node/server_life.hpp"
#include "apps/trainer_node/sizes.hpp"
#include "config/text/text.hpp"

#include <algorithm>

namespace troupe::app {

namespace {

computing_parts make_computing_parts(const config::settings& settings,
                                     const run_data& data,
                                     const payload& frozen) {
  computing_parts out{settings,      data.sets, threads_share(settings),
                      heap_memory(), data.own,  frozen};
  auto has_members = settings.what == config::role::simulate;
  if (has_members || config::may_have_modules(settings))
    out.plan = make_plan(settings, data.classes, data.description.shape);
  return out;
}

/// Refuses rounds of local steps that would always end with their epoch.
void require_rounds_fit(const config::resolved& config, uint64_t samples) {
  const auto& settings = config.values;
  const auto& training = settings.training;
  if (training.local_steps.most == 0 || samples == cores::endless ||
      settings.data.sharding == config::sharding_kind::local)
    return;
  auto workers = uint64_t{settings.cluster.workers};
  auto batches = (samples + training.batch_size - 1) / training.batch_size;
  auto most = std::max<uint64_t>(batches / workers, 1);
  if (training.local_steps.most > most)
    config::refuse(config, "training.local-steps",
                   "is more than an epoch has batches for each of " +
                     config::count(workers, "worker") + ": use at most " +
                     std::to_string(most) + ", or a smaller --batch-size");
}

} // namespace

void require_shards(const config::resolved& config, const run_data& data) {
  require_shards(config,
                 models::layout_of(config.values.training, data.classes));
}

server_plan plan_server(const config::resolved& config, const run_data& data,
                        const origin& from, const speech& say) {
  const auto& settings = config.values;
  server_plan out{config, data,
                  models::layout_of(settings.training, data.classes), from,
                  make_server_parts(config, data, from)};
  require_rounds_fit(config, out.parts.data.samples);
  if (from.checkpoint)
    require_same_run(out.parts);
  load_first_weights(out.parts, config, from, say);
  out.computing = make_computing_parts(settings, data, out.parts.from.frozen);
  if (has_remote_modules(out.computing))
    out.parts.modules = std::make_shared<module_roster>();
  out.complete = complete_already(out.parts, from);
  return out;
}

std::string to_string(const server_plan& plan) {
  const auto& settings = plan.config.values;
  const auto& from = plan.from;
  auto step = from.checkpoint ? from.checkpoint->manifest.step() : 0;
  return settings.training.network + " of " +
         std::to_string(plan.layout.count()) + " numbers, on " +
         plan.data.name + " by " + settings.policy.name + " with " +
         std::to_string(settings.cluster.workers) + " workers and " +
         std::to_string(settings.cluster.shards) + " shards; life " +
         std::to_string(from.life.value) + " from step " +
         std::to_string(step) + " in " + from.directory.path.string() +
         (plan.complete ? "; complete: " + *plan.complete : "");
}

run_end stopped_before_begin() {
  return {static_cast<uint8_t>(exit_status::try_again),
          "stopped by a signal before the run began"};
}

std::optional<run_end>
end_before_begin(const server_plan& plan,
                 const std::function<bool()>& interrupted, const speech& say) {
  if (plan.complete) {
    say("complete     " + *plan.complete + " before; raise the limit to go on");
    return run_end{};
  }
  // From now on a signal stops the run.
  if (interrupted && interrupted())
    return stopped_before_begin();
  return std::nullopt;
}

void begin(server_plan& plan, const speech& say) {
  begin_life(plan.from, plan.parts, say);
  // From now on the description of a network is in the run directory.
  plan.config.values.training.network = plan.parts.settings.training.network;
  keep_event_log(plan.parts, plan.from, plan.computing.threads, say);
}

} // namespace troupe::app
