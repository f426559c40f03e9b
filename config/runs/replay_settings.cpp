#include "config/runs/replay_settings.hpp"

#include "config/rules/validate.hpp"
#include "config/sources/ini.hpp"
#include "config/text/failure.hpp"
#include "config/text/text.hpp"

#include <algorithm>
#include <array>

namespace troupe::config {

namespace {

/// The settings that a replay may change; `resume` is the place of the
/// checkpoint.
constexpr std::array<std::string_view, 13> of_the_replay{
  "cluster.log-format",      "training.train-dir",
  "training.init",           "training.overwrite",
  "training.resume",         "training.tape",
  "training.max-steps",      "training.compute",
  "training.compute-socket", "training.compute-timeout",
  "data.data-dir",           "checkpoint.checkpoint-freq",
  "checkpoint.keep"};

/// Settings of the run that do not apply to a replay.
constexpr std::array<std::string_view, 6> not_taken{
  "training.train-dir", "training.tape",   "simulation.clock",
  "cluster.transport",  "cluster.overlap", "cluster.reshard-on-join"};

std::vector<given> from_event_log(std::string_view ini,
                                  const std::string& name) {
  std::vector<given> result;
  for (auto& entry : parse_ini(ini, name)) {
    auto where = name + ":" + std::to_string(entry.line);
    const auto& what = named_key(where, entry.section, entry.key);
    if (!is_among(not_taken, what.id()))
      result.push_back(
        {&what, std::move(entry.value), {origin::source::file, where}});
  }
  return result;
}

/// Throws if a setting that a replay may not change differs from the run's.
void require_same(const given& one, const settings& of_run) {
  resolved tried;
  tried.values = of_run;
  tried.set_value(one);
  auto theirs = one.what->get(of_run);
  if (one.what->get(tried.values) != theirs)
    throw usage_error(one.cite() + ": the run in the event log had " +
                      (theirs.empty() ? "none" : shown(theirs)) +
                      ", and a replay is that run: leave it out");
}

} // namespace

replay_settings resolve_replay(std::string_view ini, const std::string& name,
                               std::span<const given> own) {
  auto all = from_event_log(ini, name);
  const auto of_run = resolve(all).values;
  replay_settings result;
  for (const auto& one : own) {
    auto id = one.what->id();
    if (!is_among(of_the_replay, id))
      require_same(one, of_run);
    else if (id == "training.resume")
      result.resume = one.text;
    else
      all.push_back(one);
    result.may_stop_early |= id == "training.max-steps";
  }
  if (of_run.cluster.compression != "none")
    throw usage_error(
      "--replay " + name + ": the run compressed its gradients (" +
      of_run.cluster.compression +
      "); what compression left out is not in an event log, so that it "
      "cannot be re-enacted");
  result.all = resolve(all);
  result.all.is_replay = true;
  auto& values = result.all.values;
  const auto& limit = of_run.training.max_steps;
  if (limit && values.training.max_steps.value_or(UINT64_MAX) > *limit)
    refuse(result.all, "training.max-steps",
           "the run in the event log ends at " + std::to_string(*limit) +
             "; a replay may only end "
             "earlier");
  values.training.schedule_steps = limit;
  values.what = role::simulate;
  values.simulation.clock = clock_kind::virtual_time;
  validate(result.all);
  return result;
}

} // namespace troupe::config
