#pragma once
// The next life of a run whose peers have lost others: each process that is
// left begins anew as a node of a smaller cluster, which goes on at the newest
// checkpoint. It replaces its program by itself and keeps its process, so that
// whatever was under way is gone, and whoever has started it sees no end.
//
// Called by main.

#include "config/text/settings.hpp"
#include "messages/types.hpp"

#include <filesystem>

namespace troupe::app {

/// Whether peers go on without those that are lost. Not where the samples
/// belong to ranks, which would be lost, too.
bool survives_losses(const config::settings& settings);

/// Whether this process was a node before.
bool is_next_life();

/// Begins the program anew, with the same arguments. @param how Names the nodes
/// of the next life. @param directory Of the run's files; empty if they are not
/// this process's. Throws `run_error` when it cannot.
[[noreturn]] void begin_next_life(const config::settings& settings,
                                  const run_end& how,
                                  const std::filesystem::path& directory,
                                  char** arguments);

} // namespace troupe::app
