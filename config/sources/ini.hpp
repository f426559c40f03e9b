#pragma once
// Reads INI files. Knows the form only, not which keys there are.
//
//   [section]
//   key = value        ; a comment begins at the line's start or after a blank
//   # so does this one
//   other = "value"    with blanks at its ends or ' ;' in it; \" and \\ inside
//
// A value is taken verbatim: commas, parentheses and backslashes mean nothing.
// Sections may be opened again, a key may stand only once. CRLF line ends and a
// UTF-8 byte order mark are tolerated. Every error is a `usage_error` that
// begins with file and line.

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::config {

struct ini_entry {
  std::string section; ///< Empty before the first [section].
  std::string key;
  std::string value;
  size_t line = 0; ///< The first is 1.
};

/// No file of settings is larger; something else was named by mistake.
inline constexpr size_t largest_ini = 1 << 20;

/// Reads text; `name` is how errors call it.
std::vector<ini_entry> parse_ini(std::string_view text,
                                 const std::string& name);

/// Reads a file. One that is absent, a folder, unreadable or larger than 1 MiB
/// is a `usage_error` too.
std::vector<ini_entry> read_ini(const std::filesystem::path& file);

/// The value as `parse_ini` takes it back: in quotes where it needs them.
std::string ini_value(std::string_view value);

} // namespace troupe::config
