#include "config/command_line.hpp"

#include "config/failure.hpp"
#include "config/flags.hpp"
#include "config/help.hpp"
#include "config/launch.hpp"
#include "config/plan.hpp"
#include "config/report.hpp"
#include "config/validate.hpp"
#include "config/version.hpp"

#include <iterator>
#include <utility>

namespace troupe::config {

namespace {

void append(std::vector<given>& all, std::vector<given> more) {
  all.insert(all.end(), std::make_move_iterator(more.begin()),
             std::make_move_iterator(more.end()));
}

/// Gathers what was given, the weakest source first.
resolved resolve_all(command_line& flags, const environment& variables) {
  std::vector<given> all;
  std::optional<launch> by;
  if (flags.file)
    append(all, from_file(*flags.file));
  if (flags.what == role::automatic) {
    by = read_launch(variables);
    append(all, by->meeting_point);
  }
  append(all, from_environment(variables));
  append(all, std::move(flags.keys));
  auto result = resolve(all);
  result.values.what = flags.what.value_or(role::none);
  if (by)
    assign_role(result, *by);
  return result;
}

/// The settings are on the tape; these may change some of them.
invocation replay_of(command_line& flags, const environment& variables) {
  if (flags.what || flags.check || flags.print_config)
    throw usage_error("--replay takes all settings from the tape and runs at "
                      "once: leave out --simulate, --role, --check and "
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
  return flags.check ? action::check : action::run;
}

} // namespace

invocation parse_command_line(std::span<const std::string> arguments,
                              const environment& variables) {
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
  auto all = resolve_all(flags, variables);
  if (what == action::print_config)
    return {all, what, print_config(all), {}, {}};
  if (what == action::run && all.values.what == role::none)
    throw usage_error("nothing to do: give --simulate for the whole cast in "
                      "one process, or --role; --help shows all flags");
  validate(all);
  return {all, what, what == action::check ? plan(all) : "", {}, {}};
}

invocation parse_command_line(int argc, const char* const* argv) {
  std::vector<std::string> arguments(argv + (argc > 0), argv + argc);
  return parse_command_line(arguments, process_environment());
}

} // namespace troupe::config
