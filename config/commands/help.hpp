#pragma once
// The text of `--help`. Pure functions.

#include <string>

namespace troupe::config {

/// All flags, by section, with meaning, unit and default; 80 columns wide.
std::string help();

/// One entry of such a text: `head`, then `text` in the right-hand column, on
/// as many lines as needed.
std::string help_row(const std::string& head, const std::string& text);

/// A paragraph of full width, followed by an empty line.
std::string wrapped(const std::string& text);

} // namespace troupe::config
