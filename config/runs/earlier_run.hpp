#pragma once
// The settings of a start that resumes an earlier run (`--resume`). Used by
// main's thread before any actor exists.
//
//   default < run < file < environment < flag
//
// Settings that are not given keep the values of the run. A given value that
// differs where a resumed run must not differ is refused, whatever its source;
// `--change KEY=VALUE` changes a value deliberately.

#include "config/runs/description.hpp"
#include "config/sources/resolve.hpp"

#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace troupe::config {

/// The run that a start resumes, as far as settings are concerned.
struct earlier_run {
  std::string name; ///< For the user: "runs/a/checkpoints/step-00000100"
  std::string ini;  ///< Its resolved configuration.
  /// Whether it has a checkpoint. Without one the run starts from the
  /// beginning, and given settings cannot contradict it.
  bool has_weights = true;
  /// Its run directory, which may have been moved; empty if it is unknown.
  std::filesystem::path folder = {};
  std::vector<change> changes = {}; ///< Since it began.
};

/// Finds the run that a start with these settings resumes; nothing if there is
/// none. `starts`: the run is about to start, not only to be shown.
using run_finder =
  std::function<std::optional<earlier_run>(const settings&, bool starts)>;

/// Whether a node with these settings decides for the cluster: the other nodes
/// take over its settings when they join.
bool decides(const settings& all);

/// Whether a node with these settings may resume an earlier run.
bool goes_on(const settings& all);

/// The settings of the earlier run, except those that belong to each start: its
/// folder, what it may do on this machine and, where `own` has a limit, the
/// run's limits. A network that is only described is that of the run directory.
/// Throws `usage_error` if the run's configuration is invalid.
std::vector<given> from_run(const earlier_run& run, std::span<const given> own,
                            role duty);

/// Removes given values that the run had until they were changed while it ran:
/// a script that always starts alike goes on with the run as it is. A value of
/// `--change` stays. Returns a line about each.
std::vector<std::string> leave_out_replaced(std::vector<given>& own,
                                            const earlier_run& run);

/// All settings of the cluster in this run's configuration.
pairs shared_settings_of(const earlier_run& run);

/// Throws `usage_error` about the first given setting that differs but must
/// not. Returns the deliberate changes, which `changes` names.
std::vector<change> require_same(const resolved& all, const earlier_run& run,
                                 std::span<const given> changes);

} // namespace troupe::config
