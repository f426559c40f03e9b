#pragma once
// The variables that Kubernetes puts into every container for each service of
// its namespace. Those of a service named `troupe-data` look like ours:
// TROUPE_DATA_PORT=tcp://10.0.0.1:80. Pure functions; any thread.

#include "config/sources/resolve.hpp"

#include <string>
#include <string_view>

namespace troupe::config {

/// Whether name and value have one of the forms of such a variable:
/// X_SERVICE_HOST, X_SERVICE_PORT, X_SERVICE_PORT_<NAME>, X_PORT with a URL of
/// tcp, udp or sctp, X_PORT_<NUMBER>_<PROTOCOL> and, of that, _PROTO, _PORT and
/// _ADDR.
bool is_of_a_service(std::string_view name, std::string_view value);

/// The same for a name that is also a setting's, such as TROUPE_CLUSTER_PORT:
/// only if `all` holds the X_SERVICE_HOST that comes with it, as else somebody
/// may have written the value by mistake.
bool is_surely_of_a_service(const environment& all, std::string_view name);

} // namespace troupe::config
