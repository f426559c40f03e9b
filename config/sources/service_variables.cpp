#include "config/sources/service_variables.hpp"

#include <initializer_list>

namespace troupe::config {

namespace {

constexpr std::string_view port_ending = "_PORT";

bool is_url_of_a_port(std::string_view value) {
  return value.starts_with("tcp://") || value.starts_with("udp://") ||
         value.starts_with("sctp://");
}

/// Drops the first of these endings that the name has; false if it has none.
bool drop_ending(std::string_view& name,
                 std::initializer_list<std::string_view> endings) {
  for (auto ending : endings) {
    if (!name.ends_with(ending))
      continue;
    name.remove_suffix(ending.size());
    return true;
  }
  return false;
}

/// X_PORT_80_TCP, X_PORT_80_TCP_ADDR
bool is_of_one_port(std::string_view name) {
  drop_ending(name, {"_PROTO", "_PORT", "_ADDR"});
  if (!drop_ending(name, {"_TCP", "_UDP", "_SCTP"}))
    return false;
  auto before = name.find_last_not_of("0123456789");
  return before != name.npos && before + 1 < name.size() &&
         name.substr(0, before + 1).ends_with("_PORT_");
}

} // namespace

bool is_of_a_service(std::string_view name, std::string_view value) {
  return (name.ends_with(port_ending) && is_url_of_a_port(value)) ||
         name.ends_with("_SERVICE_HOST") || name.ends_with("_SERVICE_PORT") ||
         name.find("_SERVICE_PORT_") != name.npos || is_of_one_port(name);
}

bool is_surely_of_a_service(const environment& all, std::string_view name) {
  auto found = all.find(name);
  if (found == all.end() || !name.ends_with(port_ending) ||
      !is_url_of_a_port(found->second))
    return false;
  name.remove_suffix(port_ending.size());
  return all.contains(std::string{name} + "_SERVICE_HOST");
}

} // namespace troupe::config
