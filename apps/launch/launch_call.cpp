#include "apps/launch/launch_call.hpp"

#include "config/text/failure.hpp"
#include "config/text/settings.hpp"
#include "config/text/value.hpp"

#include <algorithm>
#include <utility>

namespace troupe::app {

namespace {

using strings = std::vector<std::string>;

const config::verb launch_verb{
  "launch",
  "launch starts a parameter server and workers, on this machine or over ssh "
  "on "
  "others, prints what they print with their names before it, and ends with "
  "the run's status. After -- come flags for all of them, or the command of a "
  "worker.",
  {},
  false,
  {{"config", "FILE", "an INI file of settings", config::file_path(), {}, true},
   {"workers",
    "N|MIN:MAX",
    "how many; MAX are started, and the run goes on with MIN; not given: those "
    "of the settings",
    config::any_text(),
    {},
    true},
   {"ps", "K", "parameter server shards, each a process",
    config::whole(1, most_processes), "1"},
   {"evaluator", "", "start an evaluator, too", config::any_text(), {}, true},
   {"evaluator-command",
    "COMMAND",
    "start an evaluator by this command of the shell",
    config::any_text(),
    {},
    true},
   {"max-restarts", "R", "how often a process that died is started again",
    config::whole(0, 1'000'000), "0"},
   {"no-progress-limit", "R",
    "how often in a row a process is started again without a gradient of it in "
    "the weights; 0: any number of times",
    config::whole(0, 1'000'000), "3"},
   {"log-dir",
    "DIR",
    "a folder for what each process prints",
    config::file_path(),
    {},
    true},
   {"log-format",
    config::alternatives<config::log_form>(),
    "the form of all lines; the same as --log-format of all nodes",
    config::any_text(),
    {},
    true},
   {"topology",
    "KIND",
    "star: servers and workers; peers: equal nodes, each worker and server",
    config::one_of_words({"star", "peers"}),
    {},
    true},
   {"hosts",
    "FILE",
    "start them over ssh on these hosts: a line for each with its name or "
    "address, maybe with slots=N behind it; the first has the server",
    config::file_path(),
    {},
    true},
   {"ssh",
    "COMMAND",
    "another command for ssh, such as \"ssh -F config\"; not given: that of "
    "TROUPE_SSH",
    config::any_text(),
    {},
    true}},
  false,
  {{"copy", "PATH", "a file or folder that goes along to all hosts",
    config::file_path()}}};

/// What stands before and after the first "--".
std::pair<strings, strings> cut(const strings& arguments) {
  auto at = std::ranges::find(arguments, "--");
  return {{arguments.begin(), at},
          at == arguments.end() ? strings{} : strings{at + 1, arguments.end()}};
}

} // namespace

std::optional<launch_call> read_launch(const strings& arguments,
                                       std::string& help) {
  auto [own, rest] = cut(arguments);
  auto call = config::read_verb(launch_verb, own);
  if (!call) {
    help = config::help_of({&launch_verb, 1});
    return std::nullopt;
  }
  launch_call out{std::move(*call), std::move(rest), {}};
  if (out.own.flags.has("hosts"))
    out.hosts = read_host_list(out.own.flags.text("hosts"));
  else if (out.own.flags.has("ssh") || !out.own.repeated.empty())
    throw usage_error("--copy and --ssh are for --hosts FILE, which says to "
                      "which hosts");
  return out;
}

} // namespace troupe::app
