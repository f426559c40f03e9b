#pragma once
// Reads INI files. Knows the syntax only, not the keys. Pure functions; any
// thread.
//
//   [section]
//   key = value        ; a comment begins at the line's start or after a blank
//   # so does this one
//   other = "value"    with blanks at its ends or ' ;' in it; \" and \\ inside
//
// A value is taken verbatim: commas, parentheses and backslashes have no
// special meaning. Sections may be repeated, keys may not. CRLF line ends and a
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

/// Larger files are refused: they were named by mistake.
inline constexpr size_t largest_ini = 1 << 20;

/// Parses a text; `name` is how error lines call it.
std::vector<ini_entry> parse_ini(std::string_view text,
                                 const std::string& name);

/// Reads a file. Throws `usage_error` also for one that is absent, a folder,
/// unreadable or larger than 1 MiB.
std::vector<ini_entry> read_ini(const std::filesystem::path& file);

/// The value as `parse_ini` reads it back: quoted where needed.
std::string ini_value(std::string_view value);

} // namespace troupe::config
