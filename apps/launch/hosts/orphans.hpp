#pragma once
// Processes that the children of this one have left behind. They become its
// own children, as those of process 1 of a container do in any case, so that it
// can reap them when they end, and end them with itself. For one thread.

#include <sys/types.h>

#include <functional>

namespace troupe::app {

/// From now on orphans become children of this process.
void adopt_orphans();

/// Whether this process has any child. To be called, as `kill_orphans`, when
/// those that are no orphans have been reaped.
bool has_orphans();

/// Reaps the orphans that have ended.
/// @param is_ours Whether a child is no orphan: its end is left to somebody
/// else.
void reap_orphans(const std::function<bool(pid_t)>& is_ours);

/// Sends the signal to all children.
void kill_orphans(int signal);

/// Tells orphans to end, then kills those that are left, and what these leave.
void end_orphans();

} // namespace troupe::app
