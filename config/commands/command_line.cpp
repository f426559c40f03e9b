#include "config/commands/command_line.hpp"

#include "config/commands/flags.hpp"
#include "config/commands/help.hpp"
#include "config/report/plan.hpp"
#include "config/report/report.hpp"
#include "config/rules/small_networks.hpp"
#include "config/rules/validate.hpp"
#include "config/sources/next_life_settings.hpp"
#include "config/sources/rendezvous.hpp"
#include "config/text/failure.hpp"
#include "config/text/version.hpp"

#include <iterator>
#include <utility>

namespace troupe::config {

namespace {

void append(std::vector<given>& all, std::vector<given> more) {
  all.insert(all.end(), std::make_move_iterator(more.begin()),
             std::make_move_iterator(more.end()));
}

/// What was given to a start, without the settings of the earlier run.
struct start {
  std::vector<given> all; ///< The weakest source first.
  std::optional<launch> by;
  role what = role::none;

  resolved resolve_with(const std::vector<given>& of_run) const {
    auto weakest = of_run;
    append(weakest, all);
    auto result = resolve(weakest);
    result.values.what = what;
    take_rendezvous(result);
    if (what == role::automatic)
      assign_role(result, by);
    else
      fit_topology(result);
    if (decides(result.values))
      choose_small_form(result, of_run);
    return result;
  }
};

start gather(command_line& flags, const environment& variables) {
  start out;
  out.what = flags.what.value_or(role::none);
  if (flags.file)
    append(out.all, from_file(*flags.file));
  if (flags.what == role::automatic) {
    out.by = read_launch(variables);
    if (out.by)
      append(out.all, out.by->meeting_point);
  }
  append(out.all, from_environment(variables));
  append(out.all, std::move(flags.keys));
  append(out.all, restart_settings(variables));
  if (auto next = read_next_life(variables)) {
    out.by = launch_of(*next);
    append(out.all, settings_of(*next));
    append(flags.changes, changes_of(*next));
  }
  append(out.all, flags.changes);
  return out;
}

action action_of(const command_line& flags) {
  if (flags.help)
    return action::help;
  if (flags.version)
    return action::version;
  if (flags.list_networks)
    return action::list_networks;
  if (flags.list_datasets)
    return action::list_datasets;
  if (flags.print_config)
    return action::print_config;
  if (flags.check)
    return action::check;
  return flags.evaluate ? action::evaluate : action::run;
}

/// Prepares an evaluation, which scores in this process alone.
void prepare_evaluation(resolved& all) {
  if (all.values.what != role::none && all.values.what != role::simulate)
    throw usage_error("--evaluate scores in one process: leave --role out");
  const auto& training = all.values.training;
  auto from_file = all.is_explicit("training.init");
  if (from_file == training.resume.has_value())
    throw usage_error("--evaluate needs weights: either --init FILE or "
                      "--resume PATH");
  if (training.resume == "auto" || training.resume == "best")
    throw usage_error("--evaluate --resume needs the PATH of a checkpoint or "
                      "run directory");
  all.values.what = role::simulate;
}

/// Validates without --overwrite, which may stand beside --resume here: the
/// weights that are scored and the results lie in two folders.
void validate_evaluation(resolved all) {
  all.values.training.overwrite = false;
  validate(all);
}

resolved resolve_all(command_line& flags, const environment& variables,
                     const run_finder& find) {
  auto given = gather(flags, variables);
  auto result = given.resolve_with({});
  auto resumes = goes_on(result.values);
  if (!flags.changes.empty() && !resumes && decides(result.values))
    throw usage_error(flags.changes.front().cite() +
                      ": --change is for a run that goes on: give it to the "
                      "parameter server, or --simulate, with --resume");
  auto starts = action_of(flags) == action::run;
  auto run = resumes && find ? find(result.values, starts) : std::nullopt;
  if (!run)
    return result;
  std::vector<std::string> left_out;
  if (run->has_weights)
    left_out = leave_out_replaced(given.all, *run);
  auto of_run = from_run(*run, given.all, result.values.what);
  result = given.resolve_with(of_run);
  for (const auto& line : left_out)
    result.decisions.push_back("policy       " + line);
  if (run->has_weights)
    result.changes = require_same(result, *run, flags.changes);
  return result;
}

/// The settings of a replay are in the event log; flags may change some of
/// them.
invocation replay_of(command_line& flags, const environment& variables) {
  if (flags.what || flags.check || flags.print_config || flags.evaluate)
    throw usage_error(
      "--replay takes all settings from the event log and runs at "
      "once: leave out --simulate, --role, --check, --evaluate and "
      "--print-config");
  invocation result;
  result.what = action::replay;
  result.tape = *flags.replay;
  if (flags.file)
    append(result.given_for_replay, from_file(*flags.file));
  append(result.given_for_replay, from_environment(variables));
  append(result.given_for_replay, std::move(flags.keys));
  return result;
}

} // namespace

invocation parse_command_line(std::span<const std::string> arguments,
                              const environment& variables,
                              const run_finder& find) {
  auto flags = read_flags(arguments);
  auto what = action_of(flags);
  if (what == action::help)
    return {{}, what, help(), {}, {}};
  if (what == action::version)
    return {{}, what, "trainer_node " + std::string{version()} + "\n", {}, {}};
  if (what == action::list_networks || what == action::list_datasets)
    return {{}, what, "", {}, {}};
  if (flags.replay)
    return replay_of(flags, variables);
  auto all = resolve_all(flags, variables, find);
  if (what == action::print_config)
    return {all, what, print_config(all), {}, {}};
  if (flags.evaluate)
    prepare_evaluation(all);
  if (what == action::run && all.values.what == role::none)
    throw usage_error("nothing to do: give --simulate for the whole cluster in "
                      "one process, or --role; --help shows all flags");
  if (flags.evaluate)
    validate_evaluation(all);
  else
    validate(all);
  return {all, what, what == action::check ? plan(all) : "", {}, {}};
}

resolved read_settings(std::span<const std::string> arguments,
                       const environment& variables) {
  auto flags = read_flags(arguments);
  return resolve_all(flags, variables, {});
}

} // namespace troupe::config
