#include "models/layout/segments.hpp"

#include "config/patterns/key_patterns.hpp"
#include "config/text/failure.hpp"
#include "config/text/text.hpp"
#include "models/layout/assign_groups.hpp"

#include <torch/nn/module.h>

#include <algorithm>
#include <limits>
#include <utility>

namespace troupe::models {

namespace {

using config::placement_rule;

[[noreturn]] void refuse(const std::string& reason) {
  throw usage_error("[placement]: " + reason);
}

/// A network that does not tell its parts is one part.
std::vector<std::vector<std::string>> modules_of(network& net) {
  std::vector<std::vector<std::string>> out;
  for (const auto& part : net.parts())
    out.push_back(part.modules);
  if (!out.empty())
    return out;
  auto& all = out.emplace_back();
  for (const auto& child : net.module().named_children())
    all.push_back(child.key());
  if (all.empty()) // A script whose parameters are its own.
    all.push_back("network");
  return out;
}

std::string listed(const std::vector<std::vector<std::string>>& modules) {
  std::vector<std::string> all;
  for (const auto& part : modules)
    all.push_back(config::join(part, "+"));
  return config::join(all, ", ");
}

bool same_place(const placement_rule& a, const placement_rule& b) {
  return a.server == b.server && a.device == b.device;
}

/// The rule of each part: the first that matches one of its modules.
std::vector<const placement_rule*>
rules_of(const std::vector<std::vector<std::string>>& modules,
         const std::vector<placement_rule>& rules) {
  std::vector<const placement_rule*> out;
  for (const auto& part : modules) {
    auto its = std::ranges::find_if(rules, [&](const auto& rule) {
      return std::ranges::any_of(part, [&](const auto& module) {
        return config::matches(rule, module);
      });
    });
    if (its == rules.end())
      refuse("no line says where " + config::join(part, " and ") +
             " is; add one, as in '* = worker'");
    out.push_back(&*its);
  }
  for (const auto& rule : rules)
    if (std::ranges::find(out, &rule) == out.end())
      refuse(config::in_quotes(rule.pattern) +
             " has no effect: it matches no part of the network, or an "
             "earlier line places each part that it matches; the "
             "network has " +
             listed(modules));
  return out;
}

template <class Same>
std::vector<placed_segment>
runs_of(const std::vector<const placement_rule*>& rules, Same same) {
  std::vector<placed_segment> out;
  for (size_t i = 0; i < rules.size(); ++i) {
    if (i == 0 || !same(*rules[i - 1], *rules[i]))
      out.push_back({{i, i}, rules[i]->server, rules[i]->device});
    out.back().parts.last = i + 1;
  }
  return out;
}

} // namespace

bool belongs(const std::string& name, network& net, const part_range& range) {
  const auto& parts = net.parts();
  if (range.first == 0 && range.last >= parts.size())
    return true;
  for (auto k = range.first; k < std::min(range.last, parts.size()); ++k)
    for (const auto& module : parts[k].modules)
      if (name.starts_with(module + "."))
        return true;
  return false;
}

element_range statistics_of(network& net, const flat_layout& layout,
                            const part_range& parts) {
  element_range out;
  for (const auto& slot : layout.statistics())
    if (belongs(slot.name, net, parts)) {
      if (out.count == 0)
        out.first = slot.offset - layout.parameter_count();
      out.count += slot.count;
    }
  return out;
}

std::vector<placed_segment>
segments_of(network& net, const std::vector<placement_rule>& rules) {
  auto modules = modules_of(net);
  if (rules.empty())
    return {{{0, modules.size()}, 0}};
  return runs_of(rules_of(modules, rules), same_place);
}

std::vector<placed_segment>
stages_of(network& net, const std::vector<placement_rule>& rules) {
  auto out = runs_of(rules_of(modules_of(net), rules),
                     [](const auto& a, const auto& b) { return &a == &b; });
  if (out.size() != rules.size())
    refuse("each line is a stage of the pipeline, and its modules must follow "
           "each other; the network has " +
           listed(modules_of(net)));
  return out;
}

std::string describe(network& net,
                     const std::vector<placed_segment>& segments) {
  auto modules = modules_of(net);
  std::vector<std::string> out;
  for (const auto& [parts, server, device] : segments) {
    const auto& first = modules[parts.first].front();
    const auto& last = modules[std::min(parts.last, modules.size()) - 1].back();
    out.push_back(
      (first == last ? first : first + " to " + last) +
      (server ? " on ps:" + std::to_string(*server) : " with the worker") +
      (device.empty() ? "" : " on " + device));
  }
  return config::join(out, ", ");
}

namespace {

flat_layout placed_layout_of(network& net,
                             const config::training_settings& settings) {
  auto freeze = config::parse_key_patterns(settings.freeze);
  auto rules = config::parse_placement(settings.placement);
  auto is_remote = [](const placement_rule& x) {
    return x.server.has_value();
  };
  if (std::ranges::none_of(rules, is_remote))
    return flat_layout::from(net.module(), freeze);
  auto segments = segments_of(net, rules);
  return flat_layout::from(net.module(), freeze, [&](const std::string& name) {
    constexpr auto last = std::numeric_limits<uint32_t>::max();
    for (const auto& segment : segments)
      if (belongs(name, net, segment.parts))
        return !segment.server        ? last
               : *segment.server == 0 ? last - 1
                                      : *segment.server;
    return last - 1;
  });
}

} // namespace

flat_layout layout_of(network& net, const config::training_settings& settings) {
  auto out = placed_layout_of(net, settings);
  std::vector<parameter_slot> constants;
  for (auto& x : net.constants()) {
    auto& slot = constants.emplace_back();
    slot.name = std::move(x.name);
    slot.dtype = std::move(x.dtype);
    slot.shape = std::move(x.shape);
    slot.same_as = std::move(x.same_as);
  }
  out.add_constants(std::move(constants));
  assign_groups(out, net.groups(), settings);
  return out;
}

flat_layout layout_of(const config::training_settings& settings,
                      int64_t classes) {
  return layout_of(*make_network(settings.network, classes, settings.dtype),
                   settings);
}

whole_weights draw_weights(const config::training_settings& settings,
                           int64_t classes) {
  auto net = make_network(settings.network, classes, settings.dtype);
  auto layout = layout_of(*net, settings);
  initialise(*net, settings.seed);
  whole_weights out{gather(net->module(), layout),
                    gather_frozen(net->module(), layout)};
  for (const auto& slot : layout.constants())
    net->read_constant(slot.name, flat_layout::constant_in(out.frozen, slot));
  return out;
}

void read_constants(const config::training_settings& settings,
                    const std::vector<parameter_slot>& which,
                    const at::Tensor& frozen) {
  if (which.empty())
    return;
  auto net = make_network(settings.network, 0, settings.dtype);
  for (const auto& slot : which)
    net->read_constant(slot.name, flat_layout::constant_in(frozen, slot));
}

std::optional<uint32_t> owner_of(const std::string& parameter, network& net,
                                 const std::vector<placed_segment>& segments) {
  auto its = std::ranges::find_if(segments, [&](const auto& segment) {
    return belongs(parameter, net, segment.parts);
  });
  if (its == segments.end())
    throw usage_error("parameter " + parameter +
                      " is in none of the network's parts: it cannot be cut");
  return its->server;
}

uint64_t parameters_with_worker(network& net, const flat_layout& layout,
                                const std::vector<placed_segment>& segments) {
  uint64_t out = 0;
  for (const auto& slot : layout.slots())
    if (!owner_of(slot.name, net, segments))
      out += slot.count;
  return out;
}

} // namespace troupe::models
