#include "config/values/faults.hpp"

#include "config/text/call_schema.hpp"
#include "config/text/failure.hpp"
#include "config/text/input_file.hpp"
#include "config/text/text.hpp"
#include "config/text/value.hpp"

#include <algorithm>
#include <array>

namespace troupe::config {

namespace {

/// No file of faults is larger; something else was named by mistake.
constexpr size_t largest_file = 1 << 20;

const parameter worker{"worker", "R", "whom, by rank", whole(0, largest_rank)};
const parameter span{"for", "S", "seconds that it lasts", number_above(0)};

/// In the order of `fault_kind`; parameters in the order in which they are
/// shown.
const std::array<call_schema, fault_kinds> fault_schemas{{
  {"crash",
   {worker,
    {"restart", "S", "seconds until it comes back", number_above(0), "",
     true}}},
  {"crash-server",
   {{"restart", "S", "seconds until it comes back", number_above(0)}}},
  {"slow",
   {worker,
    {"factor", "X", "times as long", number_from(1, largest_number)},
    span}},
  {"cut", {worker, span}},
  {"delay",
   {worker, {"by", "S", "seconds of each message", number_above(0)}, span}},
  {"duplicate",
   {worker,
    {"after", "S", "seconds until it comes again",
     number_from(0, largest_number)},
    span}},
  {"cut-up", {worker, span}},
  {"cut-down", {worker, span}},
  {"pause", {span}},
  {"stall-recorder", {span}},
  {"fail-server",
   {{"restart", "S", "seconds until it comes back", number_above(0)}}},
}};

const call_schema random_schema{
  "random",
  {{"seed", "N", "of the draw", whole(0, UINT64_MAX)},
   {"faults", "N", "how many", whole(0, 10000),
    std::to_string(random_faults{}.faults)},
   {"until", "S", "seconds in which they come", number_above(0),
    print(random_faults{}.until)}},
  true};

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
                    ": the cluster has " + std::to_string(workers));
  return result;
}

std::string_view before_comment(std::string_view line) {
  return trim(line.substr(0, line.find('#')));
}

} // namespace

std::string_view to_string(fault_kind x) {
  return fault_schemas[static_cast<size_t>(x)].name;
}

fault parse_fault(double at, std::string_view text) {
  const auto& what = schema_of(name_of_call(text), fault_schemas, "fault");
  if (text.find('(') == text.npos)
    throw bad_value("must be " + what.name + "(...)");
  fault result;
  result.at = at;
  result.what = static_cast<fault_kind>(&what - fault_schemas.data());
  for (const auto& [name, value] : read_arguments(what, text))
    if (name == "worker")
      result.worker = static_cast<uint32_t>(parse_double(value));
    else if (name == "for" || name == "restart")
      result.lasts = parse_double(value);
    else
      result.by = parse_double(value);
  return result;
}

std::string to_string(const fault& x) {
  const auto& what = fault_schemas[static_cast<size_t>(x.what)];
  arguments values;
  for (const auto& each : what.parameters)
    if (!each.optional || x.lasts)
      values.set(each.name, print(number_of(x, each.name)));
  return to_string(what, values);
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
    line = before_comment(line);
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
  auto values = read_arguments(random_schema, text);
  return random_faults{values.whole("seed"),
                       static_cast<uint32_t>(values.whole("faults")),
                       values.number("until")};
}

} // namespace troupe::config
