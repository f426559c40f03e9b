#include "config/schema/paths.hpp"

#include <algorithm>
#include <utility>

namespace troupe::config {

namespace {

std::vector<path_facts>& all() {
  static std::vector<path_facts> kinds;
  return kinds;
}

} // namespace

void add_path(path_facts facts) {
  all().push_back(std::move(facts));
}

const std::vector<path_facts>& known_paths() {
  return all();
}

const std::vector<std::string>& transport_names() {
  static const auto names = [] {
    std::vector<std::string> out{"auto"};
    for (const auto& each : all())
      out.push_back(each.name);
    return out;
  }();
  return names;
}

const path_facts* find_path(std::string_view name) {
  auto found = std::ranges::find(all(), name, &path_facts::name);
  return found == all().end() ? nullptr : &*found;
}

bool takes_paths(std::string_view transport, reach across) {
  if (transport == actor_connection)
    return false;
  if (transport == "auto")
    return std::ranges::any_of(all(), [&](const path_facts& each) {
      return each.automatic && each.across == across;
    });
  const auto* wanted = find_path(transport);
  return wanted != nullptr && wanted->across == across;
}

} // namespace troupe::config
