#pragma once
// Converts the description of a run (config/runs/description.hpp) to and
// from protobuf, as checkpoints, event logs and the handshake carry it. Files
// of release 0.1.0 hold no description; it is made from the configuration that
// they hold. Pure functions.

#include "config/runs/description.hpp"
#include "messages/proto/event_log.pb.h"
#include "messages/proto/hello.pb.h"
#include "messages/proto/manifest.pb.h"

namespace troupe {

void put(const config::run_description& from, proto::RunDescription& to);

config::run_description description_of(const proto::RunDescription& from);

/// Throws `usage_error` if the configuration in a file of release 0.1.0 cannot
/// be read.
config::run_description description_of(const proto::Manifest& from);
config::run_description description_of(const proto::LogBegin& from);

inline config::run_description description_of(const proto::Welcome& from) {
  return description_of(from.description());
}

} // namespace troupe
