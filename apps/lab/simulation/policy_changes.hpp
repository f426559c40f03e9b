#pragma once
// Changes the policy of a virtual run at given times, as an operator would. An
// actor of the run, on its only thread; it ends after the last change.

#include "apps/startup/speech.hpp"
#include "config/schema/policies.hpp"
#include "messages/interfaces.hpp"

#include <caf/actor_system.hpp>

#include <functional>
#include <optional>
#include <vector>

namespace troupe::simulation {

/// @param find Returns the server, or nothing while it is down. A change that
/// is due then is left out.
/// @param say Is told of a change that the server refuses.
void spawn_policy_changes(caf::actor_system& system,
                          std::vector<config::timed_policy> all,
                          std::function<std::optional<lead_actor>()> find,
                          app::speech say);

} // namespace troupe::simulation
