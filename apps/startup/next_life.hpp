#pragma once
// The next life of a run whose peers have lost others: each process that is
// left begins anew as a node of a smaller cluster, which goes on at the newest
// checkpoint. It replaces its program by itself and keeps its process, so that
// whatever was under way is gone, and whoever has started it sees no end.
//
// Called by main.

#include "apps/startup/known_nodes.hpp"
#include "config/run_folder/run_lock.hpp"
#include "config/sources/next_life_settings.hpp"
#include "config/text/settings.hpp"
#include "messages/types.hpp"

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace troupe::app {

/// Whether peers go on without those that are lost. Not where the samples
/// belong to ranks, which would be lost, too.
bool survives_losses(const config::settings& settings);

/// Which node of a next life this process is; nothing in a first one.
/// Throws `usage_error`.
std::optional<config::next_life> this_life();

/// The addresses of this life's nodes, by rank; empty in a first life. Those of
/// the last ranks may be missing.
std::vector<config::address> nodes_of_this_life();

/// In a next life: the seconds after which a node that has not come counts as
/// dead. They may be more than for a node that falls silent, since it has to
/// begin anew first.
double time_to_come(const config::settings& settings);

/// Seconds that a node looks for its lead.
double connect_timeout_of(const config::settings& settings);

/// Seconds that the lock of a run may live longer than its holder: where its
/// host is lost, a file server keeps it for some 90 s.
double patience_with_lock(const config::settings& settings);

/// Takes the lock of an existing run directory. In a next life others may look
/// at it just then, so it waits a little. Throws `failure`, also if this
/// process is to lead the next life of a run and another leads it since, or the
/// lock would not keep another out.
std::shared_ptr<const config::run_lock>
lock_run(const std::filesystem::path& folder);

/// To be called before the run's directory is opened, which would make one.
/// Throws `run_error` if this process is to lead the next life of a run whose
/// directory is not here.
void require_run_is_here(const std::optional<config::next_life>& next);

/// Throws `run_error` if the directory here is of another run.
/// @param run_id Of the checkpoint that was found there.
void require_same_run(const config::next_life& next, const std::string& run_id);

/// What a process has of its run when it begins anew.
struct run_in_hand {
  std::filesystem::path directory; ///< Empty: its files are not this process's.
  std::shared_ptr<const config::run_lock> lock; ///< It is handed over; or null.
};

/// Begins the program anew, as a parameter server that goes on with this run.
/// Throws `run_error` when it cannot.
[[noreturn]] void begin_again(const run_in_hand& run, char** arguments);

/// Begins the program anew, with the same arguments. @param how Names the nodes
/// of the next life. Throws `run_error` when it cannot.
[[noreturn]] void begin_next_life(const run_end& how, const known_nodes& known,
                                  const run_in_hand& run, char** arguments);

} // namespace troupe::app
