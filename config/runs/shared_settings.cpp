#include "config/runs/shared_settings.hpp"

#include "config/runs/description.hpp"
#include "config/text/failure.hpp"
#include "config/text/text.hpp"
#include "config/text/value.hpp"

#include <algorithm>
#include <array>
#include <cstdio>

namespace troupe::config {

namespace {

/// Only the parameter server acts on these, or nobody: a resumed run may change
/// them.
constexpr std::array<std::string_view, 7> of_the_server{
  "cluster.run-id",      "cluster.workers",          "training.epochs",
  "training.max-steps",  "training.target-accuracy", "training.target",
  "evaluation.eval-freq"};

bool is_of_the_server(std::string_view id) {
  return std::find(of_the_server.begin(), of_the_server.end(), id) !=
         of_the_server.end();
}

/// Settings that release 0.1.0 did not have.
constexpr std::array<std::string_view, 20> newer{"training.loss",
                                                 "training.freeze",
                                                 "training.param-groups",
                                                 "training.ema-decay",
                                                 "parallel.mode",
                                                 "parallel.stages",
                                                 "parallel.micro-batches",
                                                 "parallel.schedule",
                                                 "parallel.placement",
                                                 "parallel.replicas",
                                                 "training.outliers",
                                                 "training.local-steps",
                                                 "training.fragments",
                                                 "training.overlap-steps",
                                                 "training.inner-optimizer",
                                                 "training.inner-lr-schedule",
                                                 "policy.size",
                                                 "policy.quorum",
                                                 "policy.window",
                                                 "policy.staleness-rule"};

/// Whether the setting is newer and has its default, which means what that
/// release did: then it does not count.
bool is_newer_and_unset(std::string_view id, std::string_view value) {
  return std::ranges::find(newer, id) != newer.end() &&
         value == key_of(id).get(settings{});
}

const key* find_shared_key(std::string_view id) {
  auto dot = id.find('.');
  if (dot == std::string_view::npos)
    return nullptr;
  auto found = find_key(id.substr(0, dot), id.substr(dot + 1));
  return found && found->where == scope::cluster ? found : nullptr;
}

template <class Wanted>
pairs collect(const settings& own, Wanted wanted) {
  pairs result;
  for (const auto& each : all_keys())
    if (each.where == scope::cluster && wanted(each.id()))
      result.emplace_back(each.id(), each.get(own));
  return result;
}

uint64_t fnv1a(std::string_view text) {
  uint64_t hash = 0xcbf29ce484222325;
  for (unsigned char c : text)
    hash = (hash ^ c) * 0x100000001b3;
  return hash;
}

} // namespace

pairs explicit_shared_settings(const resolved& own) {
  return collect(own.values,
                 [&](const std::string& id) { return own.is_explicit(id); });
}

pairs shared_settings(const settings& own) {
  return collect(own, [](const std::string&) { return true; });
}

void apply_shared_settings(settings& own, const pairs& theirs) {
  auto result = own;
  for (const auto& [id, value] : theirs) {
    auto about = "the parameter server's setting " + shown(id) + " = " +
                 or_not_set(value) + ": ";
    auto what = find_shared_key(id);
    if (!what || has_control_character(value))
      throw run_error(about + "not known here; is it another release?");
    try {
      what->set(result, value);
    } catch (const bad_value& why) {
      throw run_error(about + why.what());
    }
  }
  own = std::move(result);
}

std::string conflicts(const settings& own, const pairs& theirs) {
  for (const auto& [id, value] : theirs) {
    auto what = find_shared_key(id);
    if (!what)
      return "setting " + shown(id) +
             ": not known to the parameter server; is it another release?";
  }
  run_description server, node;
  server.settings = shared_settings(own);
  node.settings = theirs;
  auto all = differences(server, node, relation::join);
  if (all.empty())
    return "";
  const auto& [id, name, mine, value] = all.front();
  if (id == "cluster.run-id")
    return "its run is " + in_quotes(mine) + ", and this node is for " +
           in_quotes(value) + ": check --run-id, host and port";
  return name + " = " + or_not_set(value) + " here, but " + or_not_set(mine) +
         " at the parameter server: leave it out here, or start the "
         "parameter server with --" +
         key_of(id).flag + " " + (value.empty() ? "\"\"" : shown(value));
}

// Leaves newer settings with their defaults out, so that runs of 0.1.0 keep
// their digest.
std::string digest(const settings& all) {
  std::string text;
  for (const auto& [id, value] :
       collect(all, [](std::string_view id) { return !is_of_the_server(id); }))
    if (!is_newer_and_unset(id, value))
      text += id + "=" + value + "\n";
  char hex[17];
  std::snprintf(hex, sizeof hex, "%016llx",
                static_cast<unsigned long long>(fnv1a(text)));
  return hex;
}

} // namespace troupe::config
