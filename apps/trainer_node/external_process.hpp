#pragma once
// The process that computes for this program (`--compute external`): waits for
// it, and compares what it says of itself. Called by main's thread, and by
// session clients on theirs.

#include "apps/trainer_node/participants.hpp"
#include "data/dataset.hpp"

#include <functional>

namespace troupe::app {

/// Waits for the process that is to compute, if the settings ask for one.
/// @param interrupted Whether the user has asked this process to stop.
/// Throws `run_error` when none comes.
external_compute process_for(const config::settings& settings,
                             const std::function<bool()>& interrupted);

/// Throws `run_error` unless the process has as many samples as the set, and of
/// the same id: else the indices in a lease would be of other samples.
void require_same_samples(const external_compute& process,
                          const data::dataset& set);

} // namespace troupe::app
