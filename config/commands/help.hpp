#pragma once
// The text of `--help`.

#include <string>

namespace troupe::config {

/// All flags, by section, with meaning, unit and default; 80 columns wide.
std::string help();

/// A line of such a text, or several: `head`, then `text` in the right-hand
/// column.
std::string help_row(const std::string& head, const std::string& text);

/// A paragraph over the whole width, with an empty line behind it.
std::string wrapped(const std::string& text);

} // namespace troupe::config
