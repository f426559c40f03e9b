#pragma once
// Ends this program when the program that started it ends, in whatever way. It
// ends as if by SIGTERM, so a server still saves a checkpoint. Linux's death
// signal is no use for that: it already comes when the thread ends that started
// this program.

namespace troupe::app {

/// Watches the process whose id is in the environment variable TROUPE_LEASH, if
/// there is one. Main calls this before anything else.
void take_leash();

} // namespace troupe::app
