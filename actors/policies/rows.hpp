#pragma once
// Private to actors/policies: what each policy of Troupe says about itself.
// It is defined beside the policy, and registry.cpp puts it into the table.

#include "actors/policies/registration.hpp"

namespace troupe::policies {

row sync_row();
row backup_row();
row ssp_row();
row async_row();

} // namespace troupe::policies
