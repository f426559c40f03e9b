#include "apps/compare/contender.hpp"

#include "config/call.hpp"
#include "config/failure.hpp"
#include "config/policies.hpp"
#include "config/text.hpp"
#include "config/value.hpp"

#include <algorithm>
#include <set>

namespace troupe::app {

namespace {

/// Cuts where no parentheses are.
std::vector<std::string> split(const std::string& text, char at) try {
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

/// `backup:2:cancel` as flags: what stands behind a ':' is the next
/// parameter's.
void read_policy(contender& out, const std::string& text) try {
  out.policy =
    config::find_policy(config::name_of_call(text.substr(0, text.find(':'))))
      .schema.name;
  if (text.find('(') != std::string::npos) {
    out.flags = {"--policy", text};
    return;
  }
  const auto& known = config::find_policy(out.policy).schema.parameters;
  auto values = split(text, ':');
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
  auto parts = split(text, '/');
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

uint64_t parse_seeds(const std::string& text) try {
  auto seeds = config::parse_unsigned(text, 1000);
  if (seeds == 0)
    throw config::bad_value("must be at least 1");
  return seeds;
} catch (const config::bad_value& why) {
  throw usage_error("--seeds " + config::shown(text) + ": " + why.what());
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
  for (const auto& one : split(text, ',')) {
    out.push_back(parse_contender(std::string{config::trim(one)}));
    if (!labels.insert(out.back().label).second)
      refuse(out.back().label, "is given twice");
  }
  return out;
}

comparison_request parse_comparison(const std::vector<std::string>& arguments) {
  comparison_request out;
  std::string policies = usual_contenders();
  for (size_t i = 0; i < arguments.size(); ++i) {
    auto flag = arguments[i];
    if (flag == "--help") {
      out.help = true;
      continue;
    }
    std::string value;
    auto equals = flag.find('=');
    auto taken = [&](const char* name) {
      if (flag.substr(0, equals) != name)
        return false;
      if (equals != std::string::npos)
        value = flag.substr(equals + 1);
      else if (++i < arguments.size())
        value = arguments[i];
      else
        throw usage_error(std::string{name} + " needs a value");
      return true;
    };
    for (auto ours : {"--policy", "--seed", "--clock", "--resume"})
      if (flag.substr(0, equals) == ours)
        throw usage_error(flag + ": compare sets it for each run; give "
                                 "--policies and --seeds");
    if (taken("--policies"))
      policies = value;
    else if (taken("--seeds"))
      out.seeds = parse_seeds(value);
    else if (taken("--train-dir"))
      out.folder = value;
    else
      out.flags.push_back(flag);
  }
  out.contenders = parse_contenders(policies);
  return out;
}

} // namespace troupe::app
