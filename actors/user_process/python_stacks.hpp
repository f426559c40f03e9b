#pragma once
// Asks a Python program what it is doing: one that has a `troupe.Worker` or a
// `troupe.Evaluator` writes the stacks of its threads when it gets these
// signals (python/troupe/stacks.py), even where its interpreter waits for
// something that never comes. Any thread.

#include <sys/types.h>

#include <string>

namespace troupe::external {

/// Has the program write its stacks to its standard error, and returns them;
/// empty if it is no such program, or has not answered within half a second.
/// @param pid A process of this host and user.
std::string stacks_of(pid_t pid);

} // namespace troupe::external
