#include "models/exchange/wrapper_names.hpp"

#include <algorithm>
#include <array>
#include <set>
#include <utility>

namespace troupe::models {

namespace {

/// Taken off wherever they stand: PyTorch's own names, which no layer has by
/// chance.
constexpr std::array<std::string_view, 3> parts_within{
  "_orig_mod.", "_checkpoint_wrapped_module.", "_fsdp_wrapped_module."};

/// Taken off only where all names begin with them.
constexpr std::array<std::string_view, 2> beginnings{"module.", "model."};

/// The counter of torch.optim.swa_utils.AveragedModel, which stands beside
/// `module.`
constexpr std::string_view count_of_average = "n_averaged";

/// The name without this part, wherever the name of a module begins with it.
std::string without_part(std::string_view name, std::string_view part) {
  std::string out;
  for (size_t at = 0; at < name.size();) {
    auto begins = at == 0 || name[at - 1] == '.';
    if (begins && name.substr(at).starts_with(part))
      at += part.size();
    else
      out += name[at++];
  }
  return out;
}

void note(std::string& without, std::string_view name) {
  auto quoted = "'" + std::string{name} + "'";
  if (without.find(quoted) == without.npos)
    without += (without.empty() ? "" : " and ") + quoted;
}

/// The beginning of all names that a wrapper may have put there; or nothing.
std::string_view beginning_of(const std::vector<std::string>& names,
                              const std::vector<bool>& aside) {
  for (auto beginning : beginnings) {
    auto found = false;
    auto all = true;
    for (size_t i = 0; i < names.size(); ++i) {
      auto its =
        names[i].size() > beginning.size() && names[i].starts_with(beginning);
      found = found || its;
      all = all && (its || aside[i] || names[i].empty() ||
                    names[i] == count_of_average);
    }
    if (found && all)
      return beginning;
  }
  return {};
}

bool are_distinct(const std::vector<std::string>& names) {
  std::set<std::string_view> known;
  return std::ranges::all_of(names, [&](const std::string& name) {
    return name.empty() || known.insert(name).second;
  });
}

/// Adds this way, then those in which more common beginnings are taken off.
void add_ways(names_read way, const std::vector<bool>& aside,
              std::vector<names_read>& out) {
  while (are_distinct(way.names)) {
    out.push_back(way);
    auto beginning = beginning_of(way.names, aside);
    if (beginning.empty())
      return;
    note(way.without, beginning);
    for (auto& name : way.names)
      if (name.starts_with(beginning))
        name.erase(0, beginning.size());
      else if (name == count_of_average)
        name.clear();
  }
}

} // namespace

std::vector<names_read>
ways_to_read(const std::vector<std::string>& names,
             const std::function<bool(const std::string&)>& aside) {
  std::vector<bool> may_differ;
  for (const auto& name : names)
    may_differ.push_back(aside && aside(name));
  std::vector<names_read> out;
  add_ways({names, {}}, may_differ, out);
  names_read inner{names, {}};
  for (auto part : parts_within)
    for (auto& name : inner.names)
      if (auto shorter = without_part(name, part);
          shorter != name && !shorter.empty()) {
        name = std::move(shorter);
        note(inner.without, part);
      }
  if (!inner.without.empty())
    add_ways(std::move(inner), may_differ, out);
  return out;
}

} // namespace troupe::models
