#include "config/sources/resolve.hpp"

#include "config/patterns/param_groups.hpp"
#include "config/patterns/placement.hpp"
#include "config/run_folder/run_lock.hpp"
#include "config/schema/optimizers.hpp"
#include "config/schema/policies.hpp"
#include "config/sources/ini.hpp"
#include "config/sources/momentum.hpp"
#include "config/sources/next_life_settings.hpp"
#include "config/sources/service_variables.hpp"
#include "config/text/failure.hpp"
#include "config/text/text.hpp"
#include "config/text/value.hpp"
#include "config/values/lr_schedule.hpp"
#include "config/values/metrics.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace troupe::config {

namespace {

using source = origin::source;

constexpr std::string_view policy_key = "policy.name";
constexpr std::string_view workers_key = "cluster.workers";
constexpr std::string_view limits_of_workers[] = {"cluster.min-workers",
                                                  "cluster.max-workers"};

/// Refuses a variable whose name resembles that of a key, since it is probably
/// misspelt. Other variables that begin with TROUPE_ are ignored.
void refuse_misspelt(const std::string& variable) {
  std::vector<std::string> known;
  auto in_a_section = false;
  for (const auto& each : all_keys()) {
    known.push_back(each.variable());
    auto prefix =
      known.back().substr(0, known.back().size() - each.name.size());
    in_a_section = in_a_section || variable.starts_with(prefix);
  }
  if (in_a_section)
    throw usage_error("environment: unknown variable " + shown(variable) +
                      did_you_mean(variable, known));
}

/// The cluster is complete with the most workers, if their number is not given.
void fill_in_workers(resolved& all) {
  auto& cluster = all.values.cluster;
  if (!all.is_default(workers_key))
    return;
  if (cluster.max_workers)
    cluster.workers = *cluster.max_workers;
  else
    cluster.workers = std::max(cluster.workers, cluster.fewest_workers());
}

/// `2:4` of [cluster] workers as the values that it stands for.
void add_range(std::vector<given>& to, const given& one) {
  auto colon = one.text.find(':');
  auto least = one.text.substr(0, colon);
  auto most = one.text.substr(colon + 1);
  if (least.empty() || most.empty())
    throw usage_error(one.cite() + ": must be N, or MIN:MAX such as 2:4");
  auto from = one.from;
  from.call = one.text;
  to.push_back({&key_of(limits_of_workers[0]), least, from});
  to.push_back({&key_of(limits_of_workers[1]), most, from});
  to.push_back({one.what, most, from});
}

void fill_in_epsilon(training_settings& training) {
  if (const auto* facts = find_optimizer(training.optimizer))
    training.epsilon = facts->epsilon;
}

/// `epochs` has a default only where nothing else says when to stop. A cosine
/// needs an end that is known beforehand.
void fill_in_epochs(settings& all) {
  auto& training = all.training;
  auto ends = target_of(training) &&
              parse_lr_schedule(training.lr_schedule).shape != lr_shape::cosine;
  if (all.simulation.gradients != "none" && !training.epochs &&
      !training.max_steps && !ends)
    training.epochs = default_epochs;
}

/// Refuses two values of a parameter from one source, as in
/// `--policy "ssp(staleness=3)" --staleness 4`.
void refuse_contradiction(const given& a, const given& b) {
  if (a.from.from != b.from.from || a.from.call.empty() == b.from.call.empty())
    return;
  resolved first, second;
  first.set_value(a);
  second.set_value(b);
  if (a.what->get(first.values) != b.what->get(second.values))
    throw usage_error(a.cite() + " contradicts " + b.cite() +
                      ": give one of the two");
}

/// A section whose keys are patterns: all of its lines make the value of one
/// key.
struct pattern_section {
  std::string_view name;
  std::string_view key;
  void (*check)(std::string_view text); ///< Throws `bad_value`.
};

constexpr std::array<pattern_section, 2> pattern_sections{
  {{"placement", "parallel.placement",
    [](std::string_view text) {
      parse_placement(text);
    }},
   {"param-groups", "training.param-groups", [](std::string_view text) {
      parse_param_groups(text);
    }}}};

class pattern_lines {
public:
  explicit pattern_lines(const pattern_section& section) : section_(section) {
    // nop
  }

  /// Whether the line is one of this section, and was taken.
  bool add_line(const ini_entry& line, const std::string& where) {
    if (line.section != section_.name)
      return false;
    if (where_.empty())
      where_ = where;
    else
      text_ += ",";
    text_ += line.key + "=" + line.value;
    try {
      section_.check(text_);
    } catch (const bad_value& why) {
      throw usage_error(where + ": [" + std::string{section_.name} + "] " +
                        line.key + " = " + shown(line.value) + ": " +
                        why.what());
    }
    return true;
  }

  void add_to(std::vector<given>& all) const {
    if (where_.empty())
      return;
    const auto& what = key_of(section_.key);
    for (const auto& other : all)
      if (other.what == &what)
        throw usage_error(other.cite() + ": contradicts [" +
                          std::string{section_.name} + "] at " + where_ +
                          ": give one of the two");
    all.push_back({&what, text_, {source::file, where_}});
  }

private:
  pattern_section section_;
  std::string where_; ///< Of the first.
  std::string text_;
};

void fill_in_compute_time(simulation_settings& simulation) {
  if (simulation.clock == clock_kind::virtual_time &&
      simulation.compute_time.empty())
    simulation.compute_time = default_compute_time;
}

} // namespace

std::string origin::to_string() const {
  switch (from) {
  case source::by_default:
    return "default";
  case source::run:
    return "run " + where;
  case source::file:
    return where;
  case source::environment:
    return "environment " + where;
  case source::flag:
    return "flag " + where;
  }
  return "";
}

std::string given::cite() const {
  if (!from.call.empty())
    return given{&key_of(what->section == "policy" ? policy_key : workers_key),
                 from.call,
                 {from.from, from.where}}
      .cite();
  auto value = shown(text);
  switch (from.from) {
  case source::by_default:
    return "[" + what->section + "] " + what->name + " = " + value +
           " (default)";
  case source::run:
    return "[" + what->section + "] " + what->name + " = " + value +
           " (of the run at " + from.where + ")";
  case source::file:
    return from.where + ": [" + what->section + "] " + what->name + " = " +
           value;
  case source::environment:
    return from.where + "=" + value;
  case source::flag:
    return from.where == "--set" || from.where == "--change"
             ? from.where + " " + what->id() + "=" + value
             : from.where + " " + (text.empty() ? "\"\"" : value);
  }
  return "";
}

void add(std::vector<given>& to, given one) {
  if (one.what->id() == workers_key && one.text.find(':') != one.text.npos)
    return add_range(to, one);
  if (one.what->id() != policy_key || one.text.find('(') == one.text.npos)
    return to.push_back(std::move(one));
  try {
    const auto& schema = find_policy(name_of_call(one.text)).schema;
    auto values = read_given(schema, one.text);
    auto from = one.from;
    from.call = one.text;
    to.push_back({one.what, schema.name, one.from});
    for (const auto& each : schema.parameters)
      if (values.has(each.name))
        to.push_back(
          {&key_of("policy." + each.name), values.text(each.name), from});
  } catch (const bad_value& why) {
    throw usage_error(one.cite() + ": " + why.what());
  }
}

environment process_environment() {
  environment result;
  for (auto entry = environ; entry && *entry; ++entry) {
    std::string_view line{*entry};
    auto equals = line.find('=');
    if (equals != std::string_view::npos)
      result.emplace(line.substr(0, equals), line.substr(equals + 1));
  }
  return result;
}

std::vector<given> from_file(const std::filesystem::path& file) {
  std::vector<given> result;
  std::vector<pattern_lines> by_pattern(pattern_sections.begin(),
                                        pattern_sections.end());
  for (auto& entry : read_ini(file)) {
    auto where = file.string() + ":" + std::to_string(entry.line);
    if (std::ranges::any_of(by_pattern, [&](pattern_lines& section) {
          return section.add_line(entry, where);
        }))
      continue;
    const auto& what = named_key(where, entry.section, entry.key);
    add(result, {&what, std::move(entry.value), {source::file, where}});
  }
  for (const auto& section : by_pattern)
    section.add_to(result);
  return result;
}

std::vector<given> from_environment(const environment& variables) {
  std::vector<given> result;
  for (const auto& [variable, text] : variables) {
    if (!variable.starts_with("TROUPE_") || variable == next_life_variable ||
        variable == restart_variable || variable == run_lock_variable ||
        variable == launched_variable || variable == cuda_library_variable ||
        variable == nccl_library_variable)
      continue;
    auto what = find_variable(variable);
    if (what ? is_surely_of_a_service(variables, variable)
             : is_of_a_service(variable, text))
      continue;
    if (!what)
      refuse_misspelt(variable);
    else if (!text.empty())
      add(result, {what, text, {source::environment, variable}});
  }
  return result;
}

void resolved::set_value(const given& one) {
  if (has_control_character(one.text))
    throw usage_error(one.cite() + ": must not hold control characters");
  try {
    one.what->set(values, one.text);
  } catch (const bad_value& why) {
    throw usage_error(one.cite() + ": " + why.what());
  }
  origins_.insert_or_assign(one.what->id(), one.from);
}

void resolved::forget(std::string_view id) {
  origins_.erase(key_of(id).id());
}

const origin& resolved::origin_of(std::string_view id) const {
  static const origin by_default;
  auto found = origins_.find(key_of(id).id());
  return found == origins_.end() ? by_default : found->second;
}

bool resolved::is_explicit(std::string_view id) const {
  return origin_of(id).from > source::run;
}

bool resolved::is_default(std::string_view id) const {
  return origin_of(id).from == source::by_default;
}

std::string resolved::cite(std::string_view id) const {
  const auto& what = key_of(id);
  return given{&what, what.get(values), origin_of(id)}.cite();
}

void refuse(const resolved& all, std::string_view id,
            const std::string& reason) {
  throw usage_error(all.cite(id) + ": " + reason);
}

void fill_in_batch_size(resolved& all) {
  auto& training = all.values.training;
  const auto& cluster = all.values.cluster;
  if (!training.global_batch_size || !all.is_default("training.batch-size"))
    return;
  auto samples = *training.global_batch_size;
  if (cluster.is_elastic()) // The largest that a worker gets.
    training.batch_size = (samples - 1) / cluster.fewest_workers() + 1;
  else
    training.batch_size = std::max<uint64_t>(1, samples / cluster.workers);
}

resolved resolve(std::span<const given> all) {
  std::map<const key*, const given*> last;
  for (const auto& one : all) {
    auto& counts = last[one.what];
    if (counts != nullptr)
      refuse_contradiction(*counts, one);
    counts = &one;
  }
  // A number alone takes the place of a range that was given elsewhere.
  if (auto number = last.find(&key_of(workers_key));
      number != last.end() && number->second->from.call.empty())
    for (auto id : limits_of_workers)
      if (auto limit = last.find(&key_of(id));
          limit != last.end() && !limit->second->from.call.empty())
        last.erase(limit);
  resolved result;
  for (const auto& each : all_keys())
    if (auto found = last.find(&each); found != last.end())
      result.set_value(*found->second);
  fill_in_workers(result);
  fill_in_epochs(result.values);
  fill_in_momentum(result);
  if (result.is_default("training.epsilon"))
    fill_in_epsilon(result.values.training);
  fill_in_batch_size(result);
  fill_in_compute_time(result.values.simulation);
  return result;
}

} // namespace troupe::config
