#include "config/commands/help.hpp"

#include "config/commands/flags.hpp"
#include "config/schema/keys.hpp"

#include <algorithm>
#include <sstream>
#include <utility>

namespace troupe::config {

namespace {

constexpr size_t width = 80;
constexpr size_t text_column = 28;
constexpr char unbreakable_blank = '\x1f';

constexpr const char* opening =
  R"(trainer_node: trains a neural network with a cluster of actors: a parameter
server, workers, an evaluator and a checkpoint writer.

  trainer_node --simulate [--config FILE] [flags]
  trainer_node --role ps|worker|evaluator --config FILE [flags]
  trainer_node --replay LOG [flags]
  trainer_node launch [flags] [-- ...]  a cluster of processes on this machine
  trainer_node compare [flags]      policies under the virtual clock, a report
  trainer_node calibrate LOG...     fits --compute-time to a recorded run
  trainer_node devices              lists the CPU and the GPUs of this machine
  trainer_node data VERB ...        fetches, checks and cuts data sets
  trainer_node checkpoint VERB ...  lists, shows, verifies and exports weights
  trainer_node ctl policy POLICY    changes the policy of a run that goes on
  trainer_node pki VERB ...         makes, shows and renews certificates

)";

constexpr const char* closing = R"(
Every flag below a [section] is also a key of that section in the file, and the
variable TROUPE_<SECTION>_<KEY>; --policy is the key 'name' of [policy].
Precedence: default < file < environment < flag.

launch, compare, calibrate, data, checkpoint, ctl and pki have flags of their
own: trainer_node data --help.

Exit status: 0 done; 1 what the run met was wrong (data, ports, peers, devices,
disk); 2 command line or configuration wrong; 75 stopped by a signal after a
checkpoint, to be tried again; 130 a second SIGINT.
)";

/// Appends the words of `text` to `line`, and to more lines, which begin at
/// `column`.
std::string fill(std::string line, size_t column, const std::string& text) {
  std::string result;
  auto empty = true;
  std::istringstream words{text};
  for (std::string word; words >> word; empty = false) {
    if (!empty && line.size() + 1 + word.size() > width) {
      result += line + "\n";
      line.assign(column, ' ');
      empty = true;
    }
    line += (empty ? "" : " ") + word;
  }
  return result + line + "\n";
}

std::string head(const std::string& flag, const std::string& value,
                 const std::string& alone) {
  auto result = "--" + flag;
  if (value.empty() || value == "BOOL")
    return result;
  return result + (alone.empty() ? " " + value : " [" + value + "]");
}

std::string row(const key& each) {
  auto by_default = each.default_text();
  auto text = each.help;
  if (!by_default.empty() && by_default != "false")
    text += std::string{" (default:"} + unbreakable_blank + by_default + ")";
  return help_row(head(each.flag, each.value, each.alone), text);
}

} // namespace

std::string help_row(const std::string& head, const std::string& text) {
  auto line = "  " + head;
  std::string result;
  if (line.size() + 2 > text_column) {
    result = line + "\n";
    line.clear();
  }
  line.resize(text_column, ' ');
  result += fill(std::move(line), text_column, text);
  std::replace(result.begin(), result.end(), unbreakable_blank, ' ');
  return result;
}

std::string wrapped(const std::string& text) {
  return fill("", 0, text) + "\n";
}

std::string help() {
  std::string result = opening;
  for (const auto& each : start_flags())
    result += help_row(head(each.name, each.value, ""), each.help);
  for (const auto& section : all_sections()) {
    result += "\n[" + section + "]\n";
    for (const auto& each : all_keys())
      if (each.section == section)
        result += row(each);
  }
  return result + closing;
}

} // namespace troupe::config
