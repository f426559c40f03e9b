#pragma once
// Finds the run that a start goes on with, before the settings are complete:
// those that were not given are the run's.

#include "config/sources/earlier_run.hpp"
#include "config/sources/run_lock.hpp"
#include "models/storage/checkpoint.hpp"

#include <functional>
#include <memory>
#include <string>

namespace troupe::app {

/// What was found on the way, for `find_origin`: it is not looked for twice.
struct earlier_start {
  std::shared_ptr<const config::run_lock> lock; ///< Of the train-dir, or null.
  std::shared_ptr<const models::loaded_checkpoint> checkpoint; ///< Or null.
};

/// The checkpoint that `--resume` means in a train-dir; null if there is none
/// to go on from. Throws `run_error` when there are some and none is usable.
std::shared_ptr<const models::loaded_checkpoint>
find_checkpoint(const config::settings& settings,
                const std::filesystem::path& folder,
                const models::line_sink& say);

/// Leaves what it finds in `found`, which must outlive it. A start that is only
/// shown takes no lock and reads no weights.
config::run_finder make_run_finder(earlier_start& found,
                                   const models::line_sink& say);

} // namespace troupe::app
