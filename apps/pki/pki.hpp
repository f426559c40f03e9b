#pragma once
// `trainer_node pki`: makes the certificates with which nodes know each other,
// shows them and renews them. Called by main; not thread-safe for one folder.

#include "config/text/failure.hpp"

#include <string>
#include <vector>

namespace troupe::app {

/// Runs the command with the arguments after `pki`. Throws `failure`.
exit_status pki_verb(const std::vector<std::string>& arguments);

} // namespace troupe::app
