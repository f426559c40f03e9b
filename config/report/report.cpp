#include "config/report/report.hpp"

#include "config/runs/description.hpp"
#include "config/sources/ini.hpp"
#include "config/text/value.hpp"
#include "config/text/version.hpp"

namespace troupe::config {

namespace {

constexpr size_t origin_column = 36;

/// Quoted for a shell.
std::string for_shell(const std::string& value) {
  constexpr std::string_view plain =
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./:,=+";
  if (!value.empty() && value.find_first_not_of(plain) == value.npos)
    return value;
  std::string result = "'";
  for (char c : value)
    result += c == '\'' ? std::string{"'\\''"} : std::string{c};
  return result + "'";
}

std::string line_of(const key& each, const std::string& value) {
  return each.name + " = " + ini_value(value);
}

/// One block for each section; `line` gives a key's line or nothing.
template <class Line>
std::string sections(Line line) {
  std::string result;
  for (const auto& section : all_sections()) {
    std::string body;
    for (const auto& each : all_keys())
      if (each.section == section)
        if (auto text = line(each); !text.empty())
          body += text + "\n";
    if (!body.empty())
      result += (result.empty() ? "[" : "\n[") + section + "]\n" + body;
  }
  return result;
}

} // namespace

std::string to_ini(const settings& all, std::span<const change> changes) {
  auto head = "# The settings of this run, resolved by trainer_node " +
              std::string{version()} + ".\n";
  for (const auto& what : changes)
    head += "# Changed at step " + std::to_string(what.step) + ": " + what.key +
            " was " + or_not_set(what.before) + ", is " +
            or_not_set(what.after) + ".\n";
  return head + sections([&](const key& each) {
           auto value = each.get(all);
           auto left_out = value.empty() || each.where == scope::start;
           return left_out ? "" : line_of(each, value);
         });
}

std::string to_command(const settings& all) {
  std::string result = "trainer_node";
  if (all.what == role::simulate)
    result += " --simulate";
  else if (all.what != role::none)
    result += " --role " + print(all.what);
  for (const auto& each : all_keys()) {
    auto value = each.get(all);
    auto given = each.where != scope::start && value != each.get(settings{}) &&
                 each.id() != "training.train-dir";
    if (given)
      result += " --" + each.flag + " " + for_shell(value);
  }
  return result;
}

std::string print_config(const resolved& all) {
  return sections([&](const key& each) {
    auto value = each.get(all.values);
    auto line =
      value.empty() ? "; " + each.name + " is not set" : line_of(each, value);
    line.resize(std::max(line.size() + 1, origin_column), ' ');
    return line + "; " + all.origin_of(each.id()).to_string();
  });
}

} // namespace troupe::config
