#include "apps/launch/hosts/host_list.hpp"

#include "config/text/failure.hpp"
#include "config/text/text.hpp"
#include "config/text/value.hpp"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <sstream>

namespace troupe::app {

namespace {

constexpr uint32_t most_slots = 1000;

[[noreturn]] void refuse_line(const std::string& where,
                              const std::string& why) {
  throw usage_error(where + ": " + why);
}

/// Letters, digits, and what stands in addresses and in names of ssh's
/// settings. A name with others would be something else for ssh or the shell.
bool is_name(std::string_view text) {
  constexpr std::string_view others = "._-:%";
  return !text.empty() && text.front() != '-' &&
         std::ranges::all_of(text, [&](char c) {
           return std::isalnum(static_cast<unsigned char>(c)) ||
                  others.find(c) != others.npos;
         });
}

/// "[::1]" is "::1".
std::string_view without_brackets(std::string_view text) {
  auto has = text.size() > 2 && text.front() == '[' && text.back() == ']';
  return has ? text.substr(1, text.size() - 2) : text;
}

listed_host parse_name(std::string_view text, const std::string& where) {
  auto at = text.rfind('@');
  auto user = at == text.npos ? std::string_view{} : text.substr(0, at);
  auto name = without_brackets(at == text.npos ? text : text.substr(at + 1));
  auto colons = std::ranges::count(name, ':');
  if (colons == 1)
    refuse_line(where, config::shown(text) +
                         ": a port of ssh belongs into its own settings "
                         "(~/.ssh/config)");
  if (!is_name(name) || (at != text.npos && !is_name(user)))
    refuse_line(where,
                config::in_quotes(text) +
                  " is no host: give a name or an address, maybe with USER@ "
                  "before it");
  listed_host out;
  out.address = name;
  out.login = (at == text.npos ? "" : std::string{user} + "@") + out.address;
  out.where = where;
  return out;
}

uint32_t parse_slots(std::string_view word, const std::string& where) try {
  constexpr std::string_view key = "slots=";
  if (!word.starts_with(key))
    refuse_line(where, "after the host may stand slots=N, and not " +
                         config::in_quotes(word));
  auto out = config::parse<uint32_t>(word.substr(key.size()));
  if (out == 0 || out > most_slots)
    throw config::bad_value("must be 1 to " + std::to_string(most_slots));
  return out;
} catch (const config::bad_value& why) {
  refuse_line(where, config::shown(word) + ": " + why.what());
}

} // namespace

std::vector<listed_host> parse_host_list(std::string_view text,
                                         const std::string& file) {
  std::vector<listed_host> out;
  std::istringstream lines{std::string{text}};
  size_t number = 0;
  for (std::string line; std::getline(lines, line);) {
    auto where = file + ":" + std::to_string(++number);
    std::istringstream words{line.substr(0, line.find_first_of("#;"))};
    std::string word;
    if (!(words >> word))
      continue;
    auto one = parse_name(word, where);
    auto before = std::ranges::find(out, one.address, &listed_host::address);
    if (before != out.end())
      refuse_line(where, "the host " + config::shown(one.address) +
                           " stands at " + before->where +
                           " already: give it slots=N there instead");
    if (words >> word)
      one.slots = parse_slots(word, where);
    if (words >> word)
      refuse_line(where, "unexpected " + config::in_quotes(word));
    out.push_back(std::move(one));
  }
  if (out.empty())
    refuse_line(file, "names no host: write one name or address a line");
  return out;
}

std::vector<listed_host> read_host_list(const std::filesystem::path& file) {
  auto cited = "--hosts " + config::shown(file.string());
  if (!std::filesystem::is_regular_file(file))
    refuse_line(cited,
                "there is no such file: write one name or address a line");
  std::ifstream from{file, std::ios::binary};
  std::string text{std::istreambuf_iterator<char>{from}, {}};
  if (!from)
    refuse_line(cited, "cannot be read");
  return parse_host_list(text, config::shown(file.string()));
}

} // namespace troupe::app
