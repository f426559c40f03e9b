#include "config/commands/verb.hpp"

#include "config/commands/help.hpp"
#include "config/text/failure.hpp"
#include "config/text/text.hpp"
#include "config/text/value.hpp"

#include <algorithm>
#include <utility>

namespace troupe::config {

namespace {

/// A flag that is given or not, without a value.
bool is_switch(const parameter& entry) {
  return entry.placeholder.empty();
}

std::string head_of(const parameter& flag) {
  return "--" + flag.name + (is_switch(flag) ? "" : " " + flag.placeholder);
}

class argument_reader {
public:
  argument_reader(const verb& of, std::span<const std::string> typed)
    : of_(of), rest_(typed) {
    // nop
  }

  std::optional<verb_call> read() {
    if (std::ranges::find(rest_, "--help") != rest_.end() ||
        std::ranges::find(rest_, "-h") != rest_.end())
      return std::nullopt;
    while (!rest_.empty()) {
      const auto& one = rest_.front();
      rest_ = rest_.subspan(1);
      if (one.starts_with("-") && one.size() > 1)
        take_flag(one);
      else
        take_operand(one);
    }
    require_all();
    return std::move(out_);
  }

private:
  void take_operand(const std::string& one) {
    if (out_.operands.size() >= of_.operands.size() && of_.passes_on)
      return out_.others.push_back(one);
    if (out_.operands.size() >= of_.operands.size() && !of_.repeats_last)
      throw usage_error("unexpected argument " + in_quotes(one));
    auto at = std::min(out_.operands.size(), of_.operands.size() - 1);
    out_.operands.push_back(
      read(of_.operands[at], one, one.empty() ? "\"\"" : shown(one)));
  }

  void take_flag(const std::string& one) {
    auto equals = one.find('=');
    auto name = one.substr(0, equals);
    auto is_meant = [&](const parameter& each) {
      return "--" + each.name == name;
    };
    auto what = std::ranges::find_if(of_.flags, is_meant);
    auto repeated = std::ranges::find_if(of_.repeated, is_meant);
    if (repeated != of_.repeated.end()) {
      auto value = equals == one.npos ? next(name) : one.substr(equals + 1);
      return out_.repeated[repeated->name].push_back(
        read(*repeated, value, name + " " + shown(value)));
    }
    if (what == of_.flags.end() && of_.passes_on)
      return out_.others.push_back(one);
    if (what == of_.flags.end())
      refuse(name);
    if (out_.flags.has(what->name))
      throw usage_error(name + " is given twice");
    if (is_switch(*what))
      return set_switch(*what, name, equals != one.npos);
    auto value = equals == one.npos ? next(name) : one.substr(equals + 1);
    auto shown_value = value.empty() ? "\"\"" : shown(value);
    out_.flags.set(what->name, read(*what, value, name + " " + shown_value));
  }

  static std::string read(const parameter& entry, const std::string& value,
                          const std::string& cited) {
    try {
      return entry.range.read(value);
    } catch (const bad_value& why) {
      throw usage_error(cited + ": " + why.what());
    }
  }

  void set_switch(const parameter& entry, const std::string& name,
                  bool has_value) {
    if (has_value)
      throw usage_error(name + " takes no value");
    out_.flags.set(entry.name, "");
  }

  std::string next(const std::string& flag) {
    if (rest_.empty() || rest_.front().starts_with("--"))
      throw usage_error(flag + " needs a value");
    auto out = rest_.front();
    rest_ = rest_.subspan(1);
    return out;
  }

  [[noreturn]] void refuse(const std::string& name) const {
    std::vector<std::string> known;
    for (const auto* all : {&of_.flags, &of_.repeated})
      for (const auto& each : *all)
        known.push_back("--" + each.name);
    auto meant = did_you_mean(name, known);
    throw usage_error(
      of_.name + " has no flag " + in_quotes(name) +
      (meant.empty() ? "; see trainer_node " + of_.name + " --help" : meant));
  }

  void require_all() {
    if (out_.operands.size() < of_.operands.size())
      throw usage_error(of_.name + " needs " +
                        of_.operands[out_.operands.size()].help);
    for (const auto& each : of_.flags) {
      if (out_.flags.has(each.name) || each.optional)
        continue;
      if (is_switch(each))
        continue;
      if (each.by_default.empty())
        throw usage_error(of_.name + " needs --" + each.name + " " +
                          each.placeholder);
      out_.flags.set(each.name, each.by_default);
    }
  }

  const verb& of_;
  std::span<const std::string> rest_;
  verb_call out_;
};

bool is_needed(const parameter& flag) {
  return !flag.optional && flag.by_default.empty() && !is_switch(flag);
}

/// "data split DIR --parts N"
std::string shortest_call(const verb& of) {
  auto out = of.name;
  for (const auto& each : of.operands)
    out += " " + each.placeholder;
  if (of.repeats_last)
    out += "...";
  for (const auto& each : of.flags)
    if (is_needed(each))
      out += " " + head_of(each);
  return out;
}

/// "trainer_node data split DIR --parts N [--out OUT]"
std::string usage_of(const verb& of) {
  auto out = "trainer_node " + shortest_call(of);
  for (const auto& each : of.flags)
    if (!is_needed(each))
      out += " [" + head_of(each) + "]";
  for (const auto& each : of.repeated)
    out += " [" + head_of(each) + "]...";
  return out + (of.passes_on ? " [FLAG...]" : "");
}

/// "a, b or c"
std::string one_of_these(std::span<const verb> all) {
  std::string out;
  for (const auto& each : all) {
    const auto* between = &each == &all.back() ? " or " : ", ";
    out += (out.empty() ? "" : between) + shortest_call(each);
  }
  return out;
}

std::string rows_of(const verb& of) {
  std::string out;
  for (const auto& each : of.operands)
    out += help_row(each.placeholder, each.help);
  for (const auto& each : of.flags)
    out += help_row(head_of(each),
                    each.help + (each.by_default.empty()
                                   ? ""
                                   : " (default: " + each.by_default + ")"));
  for (const auto& each : of.repeated)
    out += help_row(head_of(each), each.help + " (may be repeated)");
  return out;
}

} // namespace

std::optional<verb_call> read_verb(const verb& of,
                                   std::span<const std::string> typed) {
  return argument_reader{of, typed}.read();
}

chosen_verb choose_verb(std::string_view group, std::span<const verb> all,
                        std::span<const std::string> typed) {
  if (!typed.empty() && (typed.front() == "--help" || typed.front() == "-h"))
    return {nullptr, {}, help_of(all)};
  for (const auto& each : all) {
    if (typed.empty() || each.name != std::string{group} + " " + typed.front())
      continue;
    auto call = read_verb(each, typed.subspan(1));
    if (!call)
      return {nullptr, {}, help_of({&each, 1})};
    return {&each, std::move(*call), ""};
  }
  throw usage_error(std::string{group} +
                    " needs to be told what to do: " + one_of_these(all));
}

std::string help_of(std::span<const verb> all) {
  std::string out;
  for (const auto& each : all)
    out += (out.empty() ? "usage: " : "       ") + usage_of(each) + "\n";
  for (const auto& each : all)
    out += "\n" + wrapped(each.about) + rows_of(each);
  return out;
}

} // namespace troupe::config
