#pragma once
// Private to actors/policies: what each of Troupe's policies tells about
// itself. Each function is defined beside its policy; registry.cpp calls them
// once to build the table of policies.

#include "actors/policies/registration.hpp"

namespace troupe::policies {

row sync_row();
row backup_row();
row ssp_row();
row async_row();
row buffered_row();
row quorum_row();

} // namespace troupe::policies
