#include "config/commands/flags.hpp"

#include "config/commands/foreign_flags.hpp"
#include "config/text/call.hpp"
#include "config/text/failure.hpp"
#include "config/text/home.hpp"
#include "config/text/text.hpp"
#include "config/text/value.hpp"

#include <filesystem>
#include <system_error>

namespace troupe::config {

namespace {

using source = origin::source;

[[noreturn]] void refuse_unknown(const std::string& argument) {
  auto typed = argument.substr(0, argument.find('='));
  std::vector<std::string> known;
  for (const auto& each : start_flags())
    known.push_back("--" + each.name);
  for (const auto& each : all_keys())
    known.push_back("--" + each.flag);
  if (auto hint = hint_for_foreign(argument); !hint.empty())
    throw usage_error("unknown flag " + in_quotes(typed) + hint);
  if (argument.starts_with("--") && argument.size() > 2)
    throw usage_error("unknown flag " + in_quotes(typed) +
                      did_you_mean(typed, known));
  auto hint = argument.starts_with('-') ? did_you_mean("-" + typed, known) : "";
  if (std::error_code error; std::filesystem::is_directory(argument, error))
    hint = "; a folder of data is given as --data-dir DIR";
  throw usage_error("unexpected argument " + in_quotes(argument) +
                    (hint.empty() ? "; flags begin with --" : hint));
}

/// Walks through the arguments.
class flag_reader {
public:
  explicit flag_reader(std::span<const std::string> arguments)
    : rest_(arguments) {
    // nop
  }

  command_line read() {
    while (!rest_.empty()) {
      auto argument = rest_.front() == "-h" ? "--help" : rest_.front();
      rest_ = rest_.subspan(1);
      split(argument);
      auto known =
        argument.starts_with("--") && (take_start_flag() || take_key());
      if (!known)
        refuse_unknown(argument);
    }
    return std::move(result_);
  }

private:
  void split(const std::string& argument) {
    auto equals = argument.find('=');
    flag_ = argument.substr(0, equals);
    attached_.reset();
    if (equals != std::string::npos)
      attached_ = argument.substr(equals + 1);
  }

  /// The value of the flag; `alone` when there is none.
  std::string value(const std::string& alone = "") {
    if (attached_)
      return *attached_;
    if (rest_.empty() || rest_.front().starts_with("--")) {
      if (alone.empty())
        throw usage_error(flag_ + " needs a value");
      return alone;
    }
    auto next = rest_.front();
    rest_ = rest_.subspan(1);
    return next;
  }

  std::string path() {
    auto typed = value();
    try {
      return expand_home(typed);
    } catch (const bad_value& why) {
      throw usage_error(flag_ + " " + shown(typed) + ": " + why.what());
    }
  }

  bool is_switch(const char* name, bool& on) {
    if (flag_ != name)
      return false;
    if (attached_)
      throw usage_error(flag_ + " takes no value");
    on = true;
    return true;
  }

  bool take_start_flag() {
    auto simulate = false;
    if (is_switch("--simulate", simulate)) {
      set_role(role::simulate);
    } else if (flag_ == "--role") {
      set_role(read_role(value()));
    } else if (flag_ == "--config") {
      if (result_.file)
        throw usage_error("--config is given twice");
      result_.file = path();
    } else if (flag_ == "--replay") {
      if (result_.replay)
        throw usage_error("--replay is given twice");
      result_.replay = path();
    } else if (flag_ == "--set") {
      add(result_.keys, assignment(value()));
    } else if (flag_ == "--change") {
      take_changes(value());
    } else {
      return is_switch("--print-config", result_.print_config) ||
             is_switch("--check", result_.check) ||
             is_switch("--evaluate", result_.evaluate) ||
             is_switch("--list-networks", result_.list_networks) ||
             is_switch("--list-datasets", result_.list_datasets) ||
             is_switch("--help", result_.help) ||
             is_switch("--version", result_.version);
    }
    return true;
  }

  /// `a.b=1,c.d=f(x=1,y=2)`
  void take_changes(const std::string& text) try {
    for (auto one : split_outside(text, ','))
      add(result_.changes, assignment(std::string{one}));
  } catch (const bad_value& why) {
    throw usage_error("--change " + shown(text) + ": " + why.what());
  }

  void set_role(role duty) {
    if (result_.what && *result_.what != duty)
      throw usage_error("--simulate and --role, or two roles, contradict each "
                        "other: give one");
    result_.what = duty;
  }

  static role read_role(const std::string& text) {
    try {
      return parse<role>(text);
    } catch (const bad_value& why) {
      throw usage_error("--role " + shown(text) + ": " + why.what());
    }
  }

  /// Reads the KEY=VALUE of `--set` and `--change`.
  given assignment(const std::string& text) const {
    auto equals = text.find('=');
    auto id = text.substr(0, equals);
    auto dot = id.find('.');
    auto where = flag_ + " " + shown(text);
    if (equals == std::string::npos || dot == std::string::npos)
      throw usage_error(where + ": must be section.key=value");
    const auto& what = named_key(where, id.substr(0, dot), id.substr(dot + 1));
    return {&what, text.substr(equals + 1), {source::flag, flag_}};
  }

  bool take_key() {
    auto what = find_flag(flag_.substr(2));
    if (!what)
      return false;
    add(result_.keys, {what, value(what->alone), {source::flag, flag_}});
    return true;
  }

  std::span<const std::string> rest_;
  std::string flag_;                    ///< With its dashes.
  std::optional<std::string> attached_; ///< Behind an equals sign.
  command_line result_;
};

} // namespace

std::span<const start_flag> start_flags() {
  static const std::vector<start_flag> all{
    {"simulate", "", "the whole cluster in this process"},
    {"role", alternatives<role>(),
     "one role in this process; auto: taken from the launch environment "
     "(torchrun, Open MPI, Slurm)"},
    {"config", "FILE", "the settings of the cluster, an INI file"},
    {"replay", "LOG",
     "re-enact the run of an event log (tape-<life>.pb, see --tape) in this "
     "process; "
     "of the flags below, those of folders, checkpoints and --max-steps may be "
     "given"},
    {"evaluate", "",
     "score the weights of --init FILE or --resume PATH in this process, and "
     "end; the results go to a run directory of their own"},
    {"set", "SECTION.KEY=VALUE", "sets any key"},
    {"change", "SECTION.KEY=VALUE[,...]",
     "with --resume: give the run that goes on another value of a setting that "
     "would else have to be as it was; the run keeps a record of it"},
    {"print-config", "", "show the values and where each came from"},
    {"check", "", "validate and show the plan; start nothing"},
    {"list-networks", "", "show what --network may name, with sizes"},
    {"list-datasets", "", "show what --dataset may name, with sizes and files"},
    {"version", "", "show the version"},
    {"help", "", "show this"},
  };
  return all;
}

command_line read_flags(std::span<const std::string> arguments) {
  return flag_reader{arguments}.read();
}

} // namespace troupe::config
