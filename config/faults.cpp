#include "config/faults.hpp"

#include "config/call.hpp"
#include "config/failure.hpp"
#include "config/input_file.hpp"
#include "config/text.hpp"
#include "config/value.hpp"

#include <algorithm>
#include <array>
#include <map>

namespace troupe::config {

namespace {

/// No file of faults is larger; something else was named by mistake.
constexpr size_t largest_file = 1 << 20;

constexpr std::array<std::string_view, fault_kinds> names{
  "crash",     "crash-server", "slow",     "cut",   "delay",
  "duplicate", "cut-up",       "cut-down", "pause", "stall-recorder"};

struct parameter {
  std::string_view name;
  number_rule rule;
  bool needed;
};

constexpr number_rule at_least_one{"must be at least 1", [](double x) {
                                     return x >= 1;
                                   }};

/// What each kind takes, in the order in which it is shown.
std::vector<parameter> parameters_of(fault_kind what) {
  parameter worker{"worker", is_rank, true};
  parameter span{"for", positive, true};
  switch (what) {
  case fault_kind::crash:
    return {worker, {"restart", positive, false}};
  case fault_kind::crash_server:
    return {{"restart", positive, true}};
  case fault_kind::slow:
    return {worker, {"factor", at_least_one, true}, span};
  case fault_kind::cut:
  case fault_kind::cut_up:
  case fault_kind::cut_down:
    return {worker, span};
  case fault_kind::pause:
  case fault_kind::stall_recorder:
    return {span};
  case fault_kind::delay:
    return {worker, {"by", positive, true}, span};
  case fault_kind::duplicate:
    return {worker, {"after", not_negative, true}, span};
  }
  return {};
}

fault_kind kind_of(std::string_view name) {
  auto found = std::find(names.begin(), names.end(), name);
  if (found == names.end()) {
    std::vector<std::string> known{names.begin(), names.end()};
    throw bad_value(in_quotes(name) + " is no fault; known: " +
                    join(known, ", ") + did_you_mean(name, known));
  }
  return static_cast<fault_kind>(found - names.begin());
}

using numbers = std::map<std::string_view, double>;

numbers take_arguments(const call& written,
                       const std::vector<parameter>& wanted) {
  numbers result;
  auto owner = std::string{written.name};
  for (const auto& given : written.arguments) {
    if (written.empty())
      break;
    if (given.name.empty())
      throw bad_value(in_quotes(given.value) + " must be NAME=VALUE");
    auto what = std::ranges::find(wanted, given.name, &parameter::name);
    if (what == wanted.end())
      throw bad_value(owner + " has no parameter " + in_quotes(given.name));
    auto value = parse_number(given.value, what->rule, what->name, owner);
    if (!result.emplace(what->name, value).second)
      throw bad_value(std::string{what->name} + " of " + owner +
                      " is given twice");
  }
  for (const auto& what : wanted)
    if (what.needed && !result.contains(what.name))
      throw bad_value(owner + " needs " + std::string{what.name});
  return result;
}

double number_of(const fault& x, std::string_view name) {
  if (name == "worker")
    return x.worker;
  return name == "for" || name == "restart" ? *x.lasts : x.by;
}

fault parse_line(std::string_view line, uint32_t workers) {
  auto end = std::min(line.find_first_of(" \t"), line.size());
  double at = 0;
  try {
    at = parse<double>(line.substr(0, end));
  } catch (const bad_value&) {
    throw bad_value("must begin with a time in seconds, as in "
                    "'12.5 crash(worker=3,restart=4)'");
  }
  if (at < 0 || at > 1e9)
    throw bad_value("the time must be from 0 to 1e9");
  auto result = parse_fault(at, line.substr(end));
  if (result.worker >= workers)
    throw bad_value("there is no worker " + std::to_string(result.worker) +
                    ": the cast has " + std::to_string(workers));
  return result;
}

std::string_view without_comment(std::string_view line) {
  return trim(line.substr(0, line.find('#')));
}

} // namespace

std::string_view to_string(fault_kind x) {
  return names[static_cast<size_t>(x)];
}

fault parse_fault(double at, std::string_view text) {
  fault result;
  result.at = at;
  result.what = kind_of(name_of_call(text));
  for (auto [name, value] :
       take_arguments(parse_call(text), parameters_of(result.what)))
    if (name == "worker")
      result.worker = static_cast<uint32_t>(value);
    else if (name == "for" || name == "restart")
      result.lasts = value;
    else
      result.by = value;
  return result;
}

std::string to_string(const fault& x) {
  std::string inner;
  for (const auto& what : parameters_of(x.what)) {
    if (!what.needed && !x.lasts)
      continue;
    inner += (inner.empty() ? "" : ",") + std::string{what.name} + "=" +
             print(number_of(x, what.name));
  }
  return std::string{to_string(x.what)} + "(" + inner + ")";
}

std::vector<fault> parse_faults(std::string_view text, const std::string& name,
                                uint32_t workers) {
  std::vector<fault> result;
  for (size_t number = 1; !text.empty(); ++number) {
    auto end = std::min(text.find('\n'), text.size());
    auto line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.ends_with('\r'))
      line.remove_suffix(1);
    line = without_comment(line);
    try {
      if (!line.empty())
        result.push_back(parse_line(line, workers));
    } catch (const bad_value& why) {
      throw usage_error(name + ":" + std::to_string(number) + ": " +
                        shown(line) + ": " + why.what());
    }
  }
  std::ranges::stable_sort(result, {}, &fault::at);
  return result;
}

std::vector<fault> read_faults(const std::filesystem::path& file,
                               uint32_t workers) {
  auto name = shown(file.string());
  std::error_code error;
  if (!std::filesystem::exists(file, error))
    throw usage_error("faults " + name +
                      ": no such file; name one, or draw faults with "
                      "random(SEED)");
  std::string text;
  try {
    text = read_text(file, largest_file + 1);
  } catch (const unreadable& why) {
    throw usage_error("faults " + name + ": cannot be read: " + why.what());
  }
  if (text.size() > largest_file)
    throw usage_error("faults " + name + ": too large for a list of faults");
  return parse_faults(text, name, workers);
}

std::optional<random_faults> parse_random_faults(std::string_view text) {
  if (name_of_call(text) != "random" || text.find('(') == text.npos)
    return std::nullopt;
  random_faults result;
  auto written = parse_call(text);
  if (written.empty())
    throw bad_value("random needs a seed");
  for (const auto& given : written.arguments) {
    if (given.name.empty() && written.arguments.size() == 1)
      result.seed = parse<uint64_t>(given.value);
    else if (given.name == "seed")
      result.seed = parse<uint64_t>(given.value);
    else if (given.name == "faults")
      result.faults = static_cast<uint32_t>(parse_unsigned(given.value, 10000));
    else if (given.name == "until")
      result.until = parse_number(given.value, positive, "until", "random");
    else
      throw bad_value("random takes a seed, or seed=, faults= and until=");
  }
  return result;
}

} // namespace troupe::config
