#pragma once
// A program that another one has started for its own purposes ends with it,
// however that ends: as by SIGTERM, so that a server saves a checkpoint. The
// death signal of Linux would come with the end of the thread that started it.

namespace troupe::app {

/// Takes the process from the environment, TROUPE_LEASH=PID, and watches it, if
/// it is named. To be called by main, before anything else.
void take_leash();

} // namespace troupe::app
