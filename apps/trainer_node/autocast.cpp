#include "apps/trainer_node/autocast.hpp"

#include "actors/admission/bfloat16_survey.hpp"
#include "actors/runtime/spawning.hpp"
#include "apps/startup/resources.hpp"
#include "config/text/value.hpp"
#include "messages/run_record.hpp"
#include "models/engine/bfloat16_gain.hpp"

#include <ATen/Parallel.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <future>
#include <thread>
#include <utility>
#include <vector>

namespace troupe::app {

namespace {

constexpr auto until_next_look = std::chrono::milliseconds(10);

/// Seconds after the first hello in which workers can answer; fewer than those
/// after which they give up.
double patience_for(const config::settings& settings) {
  return std::min(30.0, settings.cluster.connect_timeout / 2);
}

using gains = std::optional<std::vector<double>>; ///< None: interrupted.

/// All workers are in this process, on the same processor.
gains measured_here(const config::settings& settings, const run_data& data) {
  // The number of threads belongs to the thread that measures.
  auto measure = [&] {
    at::set_num_threads(threads_share(settings));
    return models::bfloat16_gain(settings.training, data.description.shape,
                                 static_cast<uint64_t>(data.classes));
  };
  return std::vector{std::async(std::launch::async, measure).get()};
}

gains asked_for(const server_start& start, const config::resolved& config,
                const run_data& data, const origin& from) {
  const auto& [system, its_door, interrupted, say] = start;
  auto& door = *its_door;
  auto answers = std::make_shared<bfloat16_answers>();
  auto survey = spawn<admission_actor, bfloat16_survey_state>(
    system, placement::scheduled,
    bfloat16_survey_parts{make_server_parts(config, data, from).description,
                          answers});
  door.lead_to(survey);
  say("listening    on " + config::to_string(door.where()));
  say("autocast     is decided when " +
      std::to_string(config.values.cluster.workers) +
      " workers have measured bfloat16");
  auto patience = patience_for(config.values);
  auto is_over = [&] {
    return answers->gains().size() >= config.values.cluster.workers ||
           answers->age(bfloat16_answers::clock::now()) > patience;
  };
  auto stopped = false;
  while (!stopped && !is_over()) {
    std::this_thread::sleep_for(until_next_look);
    stopped = interrupted && interrupted();
  }
  door.lead_to({});
  caf::anon_send_exit(survey, caf::exit_reason::user_shutdown);
  return stopped ? std::nullopt : gains{answers->gains()};
}

std::string reason_of(const std::vector<double>& all) {
  if (all.empty())
    return "no worker has measured bfloat16";
  auto least = std::ranges::min(all);
  if (least == 0)
    return "a worker's processor has no instructions for bfloat16";
  char text[128];
  std::snprintf(text, sizeof text,
                "steps are %.2f times as fast in bfloat16%s; auto takes it "
                "from %.2f on",
                least, all.size() > 1 ? " where it helps least" : "",
                least_bfloat16_gain);
  return text;
}

std::optional<config::autocast_kind>
kept_of(const models::loaded_checkpoint& checkpoint) {
  for (const auto& [key, value] : description_of(checkpoint.manifest).settings)
    if (key == "training.autocast")
      return config::parse<config::autocast_kind>(value);
  return std::nullopt;
}

} // namespace

bool decide_autocast(const server_start& start, config::resolved& config,
                     const run_data& data, const origin& from) {
  const auto& settings = config.values;
  auto& decided = config.values.training.autocast;
  if (decided != config::autocast_kind::automatic)
    return true;
  if (from.checkpoint) {
    decided = kept_of(*from.checkpoint).value_or(config::autocast_kind::none);
    return true;
  }
  if (is_virtual(settings) ||
      settings.training.dtype != config::scalar_type::float32) {
    decided = config::autocast_kind::none;
    return true;
  }
  auto all = settings.what == config::role::simulate
               ? measured_here(settings, data)
               : asked_for(start, config, data, from);
  if (!all)
    return false;
  decided = autocast_for(*all);
  start.say("autocast     " + config::print(decided) + ": " + reason_of(*all));
  return true;
}

} // namespace troupe::app
