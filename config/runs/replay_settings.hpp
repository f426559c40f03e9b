#pragma once
// The settings of a replay: those recorded in the event log, except folders,
// checkpoint frequency and an earlier end. Called by main's thread.

#include "config/sources/resolve.hpp"

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace troupe::config {

struct replay_settings {
  resolved all; ///< As `--simulate` under the virtual clock; validated.
  std::optional<std::string> resume; ///< Where to look for the checkpoint.
  bool may_stop_early = false;       ///< `max-steps` was given.
};

/// Combines `ini`, the settings in the event log, which error lines call
/// `name`, with `own`, the settings given for the replay. Throws `usage_error`
/// for a setting that would make it a different run.
replay_settings resolve_replay(std::string_view ini, const std::string& name,
                               std::span<const given> own);

} // namespace troupe::config
