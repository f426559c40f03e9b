#pragma once
// Private to config/: the momentum of the server's optimiser, where the user
// gives none. It depends on who waits for whom: late gradients act like
// momentum (settings.hpp: asynchronous_momentum). Pure; any thread.

#include "config/sources/resolve.hpp"

namespace troupe::config {

/// Fills in momentum, whether it is Nesterov's, and with local steps the
/// learning rate of the server.
void fill_in_momentum(resolved& all);

/// The settings with the momentum that they would have if none was given.
settings with_usual_momentum(settings of);

} // namespace troupe::config
