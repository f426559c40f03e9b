#pragma once
// Finds the run that a new start continues, before the settings are complete:
// settings that were not given are taken from that run.
//
// Used by main while it reads the settings; not thread-safe.

#include "config/run_folder/run_lock.hpp"
#include "config/runs/earlier_run.hpp"
#include "models/storage/checkpoint.hpp"

#include <functional>
#include <memory>
#include <string>

namespace troupe::app {

/// What was found, kept for `find_origin` so that it is not searched twice.
struct earlier_start {
  std::shared_ptr<const config::run_lock> lock; ///< On the train-dir; or null.
  std::shared_ptr<const models::loaded_checkpoint> checkpoint; ///< Or null.
};

/// The checkpoint that `--resume` means in a train-dir; null if there is none.
/// Throws `run_error` when there are some and none is usable.
std::shared_ptr<const models::loaded_checkpoint>
find_checkpoint(const config::settings& settings,
                const std::filesystem::path& folder,
                const models::line_sink& say);

/// Stores what it finds in `found`, which must outlive the result. A start that
/// is only shown takes no lock and reads no weights.
config::run_finder make_run_finder(earlier_start& found,
                                   const models::line_sink& say);

} // namespace troupe::app
