#pragma once
// Settings of a start that goes on with an earlier run (`--resume`):
//
//   default < run < file < environment < flag
//
// What was not given is as the run has it. What was given, and differs in
// something that a resumed run may not have otherwise, is refused, whatever
// its source; `--change KEY=VALUE` gives another value deliberately.

#include "config/sources/description.hpp"
#include "config/sources/resolve.hpp"

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace troupe::config {

/// What a start goes on with, as far as settings are concerned.
struct earlier_run {
  std::string name; ///< For the user: "runs/a/checkpoints/step-00000100"
  std::string ini;  ///< Its resolved configuration.
  /// Whether there are weights to go on from. Without, the run begins anew and
  /// nothing that is given contradicts it.
  bool has_weights = true;
};

/// Looks for the run that a start with these settings goes on with; nothing if
/// there is none. `starts`: it is about to begin, and not only shown.
using run_finder =
  std::function<std::optional<earlier_run>(const settings&, bool starts)>;

/// Whether a node with these settings decides for the cluster: the others take
/// its settings over when they join.
bool decides(const settings& all);

/// Whether it may go on with an earlier run.
bool goes_on(const settings& all);

/// The settings of the run, but for those that are each start's own: where it
/// is, what it may do on this machine, and, where `own` says when to stop, the
/// run's limits. Throws `usage_error` if the run's configuration is none.
std::vector<given> from_run(const earlier_run& run, std::span<const given> own,
                            role what);

/// All settings of the cluster that a run with this configuration has.
pairs shared_settings_of(const earlier_run& run);

/// Throws `usage_error` about the first setting that was given and may not
/// differ. Returns what was changed deliberately: `changes` names it.
std::vector<change> require_same(const resolved& all, const earlier_run& run,
                                 std::span<const given> changes);

} // namespace troupe::config
