#include "config/sources/ini.hpp"

#include "config/text/failure.hpp"
#include "config/text/input_file.hpp"
#include "config/text/text.hpp"

#include <map>
#include <utility>

namespace troupe::config {

namespace {

constexpr std::string_view byte_order_mark = "\xef\xbb\xbf";

bool is_blank(char c) {
  return c == ' ' || c == '\t';
}

bool begins_comment(std::string_view text, size_t at) {
  return (text[at] == ';' || text[at] == '#') &&
         (at == 0 || is_blank(text[at - 1]));
}

std::string_view without_comment(std::string_view text) {
  for (size_t i = 0; i < text.size(); ++i)
    if (begins_comment(text, i))
      return text.substr(0, i);
  return text;
}

/// Reads one line after the other; keeps what errors and duplicates need.
class line_reader {
public:
  explicit line_reader(const std::string& name) : name_(name) {
    // nop
  }

  void read_line(std::string_view line) {
    ++line_;
    if (line.ends_with('\r'))
      line.remove_suffix(1);
    line = trim(line);
    auto bare = trim(without_comment(line));
    if (bare.empty())
      return;
    if (has_odd(line))
      fail("control character in " + in_quotes(line));
    if (bare.starts_with('['))
      open_section(bare);
    else
      add_entry(line);
  }

  std::vector<ini_entry> entries() && { return std::move(entries_); }

private:
  [[noreturn]] void fail(const std::string& reason) const {
    throw usage_error(name_ + ":" + std::to_string(line_) + ": " + reason);
  }

  /// Tabs are blanks; any other control character is an accident.
  static bool has_odd(std::string_view line) {
    std::string rest{line};
    std::erase(rest, '\t');
    return has_control_character(rest);
  }

  void open_section(std::string_view text) {
    auto name = trim(text.substr(1, text.find(']') - 1));
    if (text.find(']') != text.size() - 1 || name.empty())
      fail(in_quotes(text) + " must be [section]");
    section_ = name;
  }

  void add_entry(std::string_view line) {
    auto equals = line.find('=');
    auto name = trim(line.substr(0, equals));
    if (equals == std::string_view::npos || name.empty() ||
        without_comment(name).size() != name.size())
      fail(in_quotes(line) + " must be key = value");
    auto [first, is_new] =
      lines_.try_emplace({section_, std::string{name}}, line_);
    if (!is_new)
      fail(in_quotes(name) + " in [" + shown(section_) +
           "] is given again; first in line " + std::to_string(first->second));
    entries_.push_back(
      {section_, std::string{name}, value_of(line.substr(equals + 1)), line_});
  }

  std::string value_of(std::string_view text) const {
    auto value = trim(text);
    return value.starts_with('"') ? unquoted(value)
                                  : std::string{trim(without_comment(text))};
  }

  std::string unquoted(std::string_view text) const {
    std::string result;
    size_t i = 1;
    for (; i < text.size() && text[i] != '"'; ++i) {
      auto escaped = text[i] == '\\' && i + 1 < text.size() &&
                     (text[i + 1] == '"' || text[i + 1] == '\\');
      result += text[escaped ? ++i : i];
    }
    if (i >= text.size())
      fail("no closing quote in " + shown(text));
    if (!trim(without_comment(text.substr(i + 1))).empty())
      fail("text after the closing quote in " + shown(text));
    return result;
  }

  const std::string& name_;
  size_t line_ = 0;
  std::string section_;
  std::map<std::pair<std::string, std::string>, size_t> lines_;
  std::vector<ini_entry> entries_;
};

} // namespace

std::vector<ini_entry> parse_ini(std::string_view text,
                                 const std::string& name) {
  if (text.size() > largest_ini)
    throw usage_error(name + ": larger than 1 MiB: no file of settings");
  if (text.starts_with(byte_order_mark))
    text.remove_prefix(byte_order_mark.size());
  line_reader lines{name};
  while (!text.empty()) {
    auto end = text.find('\n');
    lines.read_line(text.substr(0, end));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  return std::move(lines).entries();
}

std::vector<ini_entry> read_ini(const std::filesystem::path& file) {
  auto name = file.string();
  std::error_code ignored;
  if (std::filesystem::is_directory(file, ignored))
    throw usage_error(name + ": is a folder, not a file of settings");
  std::string text;
  try {
    text = read_text(file, largest_ini + 1);
  } catch (const unreadable& why) {
    throw usage_error(name + ": cannot be read: " + why.what());
  }
  return parse_ini(text, name);
}

std::string ini_value(std::string_view value) {
  auto plain = value == trim(value) && !value.starts_with('"') &&
               value == without_comment(value);
  if (plain)
    return std::string{value};
  std::string result = "\"";
  for (char c : value) {
    if (c == '"' || c == '\\')
      result += '\\';
    result += c;
  }
  return result + "\"";
}

} // namespace troupe::config
