#pragma once
// What this process shows to other nodes, and by what it knows them. Called by
// main when a process starts.

#include "apps/startup/speech.hpp"
#include "config/text/settings.hpp"
#include "messages/transport/wire/meeting.hpp"

namespace troupe::app {

/// Reads the certificate, the key, the CAs and the token of the settings.
/// Throws `failure` with a line about what is wrong with them.
transport::credentials credentials_of(const config::cluster_settings& cluster,
                                      const speech& say);

} // namespace troupe::app
