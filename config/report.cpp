#include "config/report.hpp"

#include "config/ini.hpp"
#include "config/version.hpp"

namespace troupe::config {

namespace {

constexpr size_t origin_column = 36;

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

std::string to_ini(const settings& all) {
  return "# The settings of this run, resolved by trainer_node " +
         std::string{version()} + ".\n" + sections([&](const key& each) {
           auto value = each.get(all);
           auto left_out = value.empty() || each.where == scope::start;
           return left_out ? "" : line_of(each, value);
         });
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
