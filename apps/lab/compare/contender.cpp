#include "apps/lab/compare/contender.hpp"

#include "config/commands/verb.hpp"
#include "config/schema/policies.hpp"
#include "config/text/call.hpp"
#include "config/text/failure.hpp"
#include "config/text/text.hpp"
#include "config/text/value.hpp"

#include <algorithm>
#include <set>

namespace troupe::app {

namespace {

/// Splits outside of parentheses.
std::vector<std::string> split_at(const std::string& text, char at) try {
  std::vector<std::string> out;
  for (auto part : config::split_outside(text, at))
    out.emplace_back(part);
  return out;
} catch (const config::bad_value& why) {
  throw usage_error("--policies: " + config::in_quotes(text) + " " +
                    why.what());
}

[[noreturn]] void refuse(const std::string& label, const std::string& why) {
  throw usage_error("--policies: " + config::in_quotes(label) + " " + why);
}

/// `backup:2:cancel` as flags: each value after a ':' is for the next
/// parameter.
void read_policy(contender& out, const std::string& text) try {
  out.policy =
    config::find_policy(config::name_of_call(text.substr(0, text.find(':'))))
      .schema.name;
  if (text.find('(') != std::string::npos) {
    out.flags = {"--policy", text};
    return;
  }
  const auto& known = config::find_policy(out.policy).schema.parameters;
  auto values = split_at(text, ':');
  if (values.size() > known.size() + 1)
    refuse(out.label, "has a ':' too many");
  out.flags = {"--policy", out.policy};
  for (size_t i = 1; i < values.size(); ++i)
    out.flags.insert(out.flags.end(), {"--" + known[i - 1].name, values[i]});
} catch (const config::bad_value&) {
  refuse(out.label, "is none of " + contender_forms());
}

contender parse_contender(const std::string& text) {
  contender out;
  out.label = text;
  auto parts = split_at(text, '/');
  read_policy(out, parts.front());
  for (size_t i = 1; i < parts.size(); ++i) {
    auto equals = parts[i].find('=');
    if (equals == std::string::npos || equals == 0)
      refuse(text, "must be POLICY or POLICY/KEY=VALUE/...");
    out.flags.push_back("--" + parts[i].substr(0, equals));
    out.flags.push_back(parts[i].substr(equals + 1));
  }
  return out;
}

config::verb make_verb() {
  using namespace config;
  return {
    "compare",
    "Trains under several policies in virtual time and writes a report: a "
    "table, report.csv, report.json, and report.html with plots (these "
    "need gnuplot). All other flags are those of a simulation, such as "
    "--config FILE, --workers, --compute-time, --target-accuracy "
    "(default: 0.95), --eval-freq (default: scores after every 2 x "
    "workers gradients) and --gradients none with --max-steps, which "
    "counts steps of N gradients; trainer_node --help shows them.",
    {},
    false,
    {{"policies", "LIST",
      contender_forms() +
        ", each with settings of its own, such as sync/lr=0.1",
      any_text(), usual_contenders()},
     {"seeds", "N", "runs of each, with the seeds 1 to N", whole(1, 1000), "5"},
     {"train-dir",
      "DIR",
      "where it all goes; not given: "
      "runs/compare-<n>",
      file_path(),
      {},
      true}},
    true};
}

} // namespace

std::string contender_forms() {
  std::vector<std::string> forms;
  for (const auto& each : config::known_policies()) {
    forms.push_back(each.schema.name);
    for (const auto& parameter : each.schema.parameters)
      forms.back() += ":" + parameter.placeholder;
  }
  return config::join(forms, ", ");
}

std::string usual_contenders() {
  std::vector<std::string> labels;
  for (const auto& each : config::known_policies())
    if (!each.compared_as.empty())
      labels.push_back(each.compared_as);
  return config::join(labels, ",");
}

std::vector<contender> parse_contenders(const std::string& text) {
  std::vector<contender> out;
  std::set<std::string> labels;
  for (const auto& one : split_at(text, ',')) {
    out.push_back(parse_contender(std::string{config::trim(one)}));
    if (!labels.insert(out.back().label).second)
      refuse(out.back().label, "is given twice");
  }
  return out;
}

std::string comparison_help() {
  auto verb = make_verb();
  return config::help_of({&verb, 1});
}

comparison_request parse_comparison(const std::vector<std::string>& arguments) {
  comparison_request out;
  auto what = config::read_verb(make_verb(), arguments);
  out.help = !what;
  if (!what)
    return out;
  for (const auto& flag : what->others)
    for (auto ours : {"--policy", "--seed", "--clock", "--resume"})
      if (flag.substr(0, flag.find('=')) == ours)
        throw usage_error(flag + ": compare sets it for each run; give "
                                 "--policies and --seeds");
  out.contenders = parse_contenders(what->flags.text("policies"));
  out.seeds = what->flags.whole("seeds");
  if (what->flags.has("train-dir"))
    out.folder = what->flags.text("train-dir");
  out.flags = std::move(what->others);
  return out;
}

} // namespace troupe::app
