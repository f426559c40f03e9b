#pragma once
// Has the process print its lines in the form that the user chose. For main's
// thread, before others print.

#include "config/sources/resolve.hpp"

#include <span>
#include <string>

namespace troupe::app {

/// By the command line and the environment alone, so that a line about an error
/// in the settings has that form, too.
void choose_log_form_early(std::span<const std::string> arguments,
                           const config::environment& variables);

/// As the settings say, with the place that they give this node.
void choose_log_form(const config::settings& settings);

} // namespace troupe::app
