#pragma once
// `--role auto`: the role of a node, from what the program that launched it
// says (launch_environment.hpp). Pure functions, called once by main's thread.
//
// Rank 0 is the parameter server, ranks 1 to N are the workers 0 to N-1; with
// `[cluster] evaluator = true` the last process is the evaluator. `workers` is
// the number of remaining processes; if given, it must agree. Where the
// launcher does not say how many processes there are, `workers` does. If
// processes run on several hosts, the launcher or the settings must name the
// host of rank 0.
//
// `--init-method tcp://HOST:PORT` names the address instead, and file:///PATH
// a file through which rank 0 tells it to the others.
//
// With `--topology peers` every process but that evaluator is a worker and a
// shard, and rank 0 also leads. Without a launcher, --rank and --workers say
// which of how many a process is.

#include "config/sources/launch_environment.hpp"

#include <optional>

namespace troupe::config {

/// Sets role, rank and number of workers, and adds to `decisions`. Throws
/// `usage_error` when the launch does not fit the settings, or when there is
/// none and the settings do not say.
void assign_role(resolved& all, const std::optional<launch>& by);

/// The same for a process whose role is given: `--simulate` has a shard beside
/// each worker if its nodes are peers. Throws `usage_error` for other roles,
/// which are no peers.
void fit_topology(resolved& all);

} // namespace troupe::config
