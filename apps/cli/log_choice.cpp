#include "apps/cli/log_choice.hpp"

#include "actors/recording/log_lines.hpp"
#include "config/schema/keys.hpp"
#include "config/text/value.hpp"

#include <algorithm>

namespace troupe::app {

namespace {

/// The role of a process that has all of them.
constexpr const char* simulate = "simulate";

/// What the last flag of this name says; empty without one.
std::string last_of(std::span<const std::string> arguments,
                    const std::string& flag) {
  std::string out;
  for (auto at = arguments.begin(); at != arguments.end(); ++at)
    if (at->starts_with(flag + "="))
      out = at->substr(flag.size() + 1);
    else if (*at == flag && at + 1 != arguments.end())
      out = at[1];
  return out;
}

std::string role_of(const config::settings& settings) {
  if (settings.what == config::role::simulate)
    return simulate;
  return config::is_peer(settings) ? "peer" : config::print(settings.what);
}

} // namespace

void choose_log_form_early(std::span<const std::string> arguments,
                           const config::environment& variables) {
  const auto& key = config::key_of("cluster.log-format");
  auto form = last_of(arguments, "--" + key.flag);
  if (auto given = variables.find(key.variable());
      form.empty() && given != variables.end())
    form = given->second;
  if (form != config::print(config::log_form::json))
    return;
  auto role = last_of(arguments, "--role");
  auto verb = !arguments.empty() && !arguments.front().starts_with('-');
  if (role.empty())
    role = verb ? arguments.front() : simulate;
  recording::log_lines::of_process().use_json(
    recording::origin_of_process(std::move(role), {}));
}

void choose_log_form(const config::settings& settings) {
  if (settings.cluster.log_format != config::log_form::json)
    return;
  auto rank = settings.cluster.rank;
  auto only_server = settings.what == config::role::ps &&
                     settings.cluster.shards == 1 && !config::is_peer(settings);
  if (only_server)
    rank = 0;
  auto who =
    recording::origin_of_process(role_of(settings), rank, !only_server);
  recording::log_lines::clock time = recording::time_of_day;
  if (is_virtual(settings)) {
    who.host.clear();
    time = [] {
      return 0.0;
    };
  }
  recording::log_lines::of_process().use_json(std::move(who), std::move(time));
}

} // namespace troupe::app
