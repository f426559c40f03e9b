#pragma once
// The settings of a replay: those of the event log, but for the folders, how
// often is saved, and an earlier end.

#include "config/sources/resolve.hpp"

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace troupe::config {

struct replay_settings {
  resolved all; ///< Of a `--simulate` under the virtual clock; validated.
  std::optional<std::string> resume; ///< Where to look for the checkpoint.
  bool may_stop_early = false;       ///< `max-steps` was given.
};

/// `ini` are the settings on the event log, which errors call `name`; `own` is
/// what was given for the replay. Throws `usage_error` for a setting that would
/// make it another run.
replay_settings resolve_replay(std::string_view ini, const std::string& name,
                               std::span<const given> own);

} // namespace troupe::config
