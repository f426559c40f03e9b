#include "config/patterns/placement.hpp"

#include "config/patterns/key_patterns.hpp"
#include "config/patterns/pattern_rules.hpp"
#include "config/text/text.hpp"
#include "config/text/value.hpp"

#include <algorithm>

namespace troupe::config {

namespace {

constexpr uint32_t most_ranks = 1023;
constexpr uint32_t most_devices = 15;

std::string_view take_word(std::string_view& rest) {
  auto colon = std::min(rest.find(':'), rest.size());
  auto word = trim(rest.substr(0, colon));
  rest.remove_prefix(std::min(colon + 1, rest.size()));
  return word;
}

/// A device that a part can be on: unlike `--device` there is no `auto`, since
/// a part that is to be on a GPU may not fit elsewhere.
std::string parse_device(std::string_view text) {
  constexpr std::string_view numbered = "cuda:";
  auto name = in_small_letters(trim(text));
  if (name.empty() || name == "cpu" || name == "cuda")
    return name;
  if (name.starts_with(numbered))
    try {
      parse_unsigned(name.substr(numbered.size()), most_devices);
      return name;
    } catch (const bad_value&) {
      // It is told below.
    }
  throw bad_value("device " + in_quotes(name) +
                  " must be cpu, cuda, or cuda:N with N up to " +
                  std::to_string(most_devices));
}

placement_rule parse_rule(const std::string& pattern,
                          const std::string& owner) {
  placement_rule out;
  out.pattern = pattern;
  std::string_view rest = owner;
  auto who = take_word(rest);
  if (who == "ps")
    try {
      out.server =
        static_cast<uint32_t>(parse_unsigned(take_word(rest), most_ranks));
    } catch (const bad_value&) {
      throw bad_value(in_quotes(owner) + " must name a shard by its rank, as "
                                         "in ps:0");
    }
  else if (who != "worker")
    throw bad_value(in_quotes(owner) + " must be ps:RANK or worker, with a "
                                       "device behind another colon if need "
                                       "be: ps:0:cpu");
  out.device = parse_device(rest); // The name of a device may hold a colon.
  return out;
}

} // namespace

std::vector<placement_rule> parse_placement(std::string_view text) {
  std::vector<placement_rule> out;
  for (const auto& [pattern, owner] :
       parse_pattern_rules(text, "PATTERN = ps:RANK or PATTERN = worker"))
    out.push_back(parse_rule(pattern, owner));
  return out;
}

std::string to_string(const std::vector<placement_rule>& rules) {
  std::vector<std::string> out;
  for (const auto& rule : rules) {
    auto owner = rule.server ? "ps:" + std::to_string(*rule.server) : "worker";
    if (!rule.device.empty())
      owner += ":" + rule.device;
    out.push_back(rule.pattern + "=" + owner);
  }
  return join(out, ",");
}

bool may_have_modules(const settings& all) {
  if (all.parallel.mode != parallel_mode::pipeline)
    return all.parallel.mode == parallel_mode::remote_forward;
  return std::ranges::any_of(
    parse_placement(all.training.placement),
    [](const placement_rule& rule) { return rule.server.has_value(); });
}

bool matches(const placement_rule& rule, const std::string& module) {
  return key_patterns{words_of(rule.pattern)}.match(module);
}

} // namespace troupe::config
