#include "apps/compare/contender.hpp"

#include "config/failure.hpp"
#include "config/text.hpp"
#include "config/value.hpp"

#include <algorithm>
#include <set>

namespace troupe::app {

namespace {

constexpr const char* usual_policies = "sync,backup:1,ssp:3,async";

std::vector<std::string> split(const std::string& text, char at) {
  std::vector<std::string> out{""};
  for (auto c : text)
    if (c == at)
      out.emplace_back();
    else
      out.back() += c;
  return out;
}

[[noreturn]] void refuse(const std::string& label, const std::string& why) {
  throw usage_error("--policies: " + config::in_quotes(label) + " " + why);
}

/// By our own name; what is none stays as it is.
std::string policy_named(const std::string& text) try {
  return config::print(config::parse<config::policy_kind>(text));
} catch (const config::bad_value&) {
  return text;
}

/// `backup:2:cancel` as flags.
void read_policy(contender& out, const std::string& text) {
  auto parts = split(text, ':');
  out.policy = policy_named(parts.front());
  out.flags = {"--policy", out.policy};
  auto add = [&](const char* flag, const std::string& value) {
    out.flags.insert(out.flags.end(), {flag, value});
  };
  size_t most = 1;
  if (out.policy == "backup") {
    most = 3;
    if (parts.size() > 1)
      add("--backup-workers", parts[1]);
    if (parts.size() > 2)
      add("--late", parts[2]);
  } else if (out.policy == "ssp") {
    most = 2;
    if (parts.size() > 1)
      add("--staleness", parts[1]);
  } else if (out.policy != "sync" && out.policy != "async") {
    refuse(out.label, "is none of sync, backup:B, backup:B:cancel, ssp:S, "
                      "async");
  }
  if (parts.size() > most)
    refuse(out.label, "has a ':' too many");
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
  std::string policies = usual_policies;
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
