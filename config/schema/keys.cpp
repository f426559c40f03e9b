#include "config/schema/keys.hpp"

#include "config/schema/table.hpp"
#include "config/text/failure.hpp"
#include "config/text/text.hpp"

#include <algorithm>
#include <stdexcept>

namespace troupe::config {

namespace {

template <class Match>
const key* find_if(Match match) {
  const auto& keys = all_keys();
  auto found = std::find_if(keys.begin(), keys.end(), match);
  return found == keys.end() ? nullptr : &*found;
}

/// What torch calls a key of ours.
struct other_name {
  std::string_view section;
  std::string_view name;
  std::string_view ours;
};

constexpr other_name other_names[] = {{"cluster", "rdzv-id", "run-id"}};

std::string unknown_section(std::string_view section) {
  return "unknown section [" + shown(section) + "]" +
         did_you_mean(section, all_sections());
}

/// A key's flag is suggested, too: whoever writes `policy` in [policy] means
/// `name`.
std::string unknown_key(std::string_view section, std::string_view name) {
  auto line = "unknown key " + in_quotes(name) + " in [" + shown(section) + "]";
  std::vector<std::string> guesses;
  for (const auto& candidate : all_keys()) {
    if (candidate.section != section)
      continue;
    if (candidate.flag == name)
      return line + "; did you mean " + in_quotes(candidate.name) + "?";
    guesses.push_back(candidate.name);
  }
  return line + did_you_mean(name, guesses);
}

} // namespace

std::string key::id() const {
  return section + "." + name;
}

std::string key::variable() const {
  auto result = "TROUPE_" + section + "_" + name;
  for (auto& c : result)
    c = c == '-' ? '_' : static_cast<char>(c >= 'a' && c <= 'z' ? c - 32 : c);
  return result;
}

std::string key::default_text() const {
  return get(settings{});
}

const std::vector<key>& all_keys() {
  static const auto keys = make_table();
  return keys;
}

const std::vector<std::string>& all_sections() {
  static const auto sections = [] {
    std::vector<std::string> result;
    for (const auto& each : all_keys())
      if (result.empty() || result.back() != each.section)
        result.push_back(each.section);
    return result;
  }();
  return sections;
}

const key& key_of(std::string_view id) {
  auto found = find_if([id](const key& each) { return each.id() == id; });
  if (!found)
    throw std::out_of_range("no such key: " + std::string{id});
  return *found;
}

const key* find_key(std::string_view section, std::string_view name) {
  for (const auto& other : other_names)
    if (other.section == section && other.name == name)
      name = other.ours;
  return find_if([=](const key& each) {
    return each.section == section && each.name == name;
  });
}

const key* find_flag(std::string_view flag) {
  for (const auto& other : other_names)
    if (other.name == flag)
      flag = other.ours;
  return find_if([flag](const key& each) { return each.flag == flag; });
}

const key* find_variable(std::string_view variable) {
  return find_if([=](const key& each) { return each.variable() == variable; });
}

const key& named_key(const std::string& where, std::string_view section,
                     std::string_view name) {
  if (auto found = find_key(section, name))
    return *found;
  auto elsewhere = find_if([=](const key& each) { return each.name == name; });
  if (elsewhere)
    throw usage_error(
      where + ": " + in_quotes(elsewhere->name) + " belongs in [" +
      elsewhere->section + "]" +
      (section.empty() ? "" : ", not in [" + shown(section) + "]"));
  const auto& sections = all_sections();
  if (std::find(sections.begin(), sections.end(), section) == sections.end())
    throw usage_error(where + ": " + unknown_section(section));
  throw usage_error(where + ": " + unknown_key(section, name));
}

} // namespace troupe::config
